import { useSignal } from '@preact/signals'
import { logIn, loginProblem } from '../calls/session.ts'
import { html } from '../data/html.ts'
import { ErrorNote } from '../parts/notes.ts'

/** Asks for a bearer token of the cluster. It stays in the memory of this page. */
export function Login() {
  const token = useSignal('')
  const submit = (event: Event) => {
    event.preventDefault()
    if (token.value.trim() !== '') logIn(token.value)
  }
  return html`<section class="card login">
    <p>The cluster decides what you may see and change. Paste a token of yours, such as that of</p>
    <pre><code>kubectl create token NAME</code></pre>
    <form onSubmit=${submit}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" spellcheck=${false} value=${token.value}
        onInput=${(event: Event) => {
          token.value = (event.target as HTMLInputElement).value
        }} />
      <button type="submit" class="primary">Log in</button>
    </form>
    <${ErrorNote} error=${loginProblem.value || undefined} />
    <p class="fine">The token is kept in the memory of this page only: a reload asks again.</p>
  </section>`
}
