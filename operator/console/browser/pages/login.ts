import { useSignal } from '@preact/signals'
import { logIn, loginProblem } from '../calls/session.ts'
import { fieldValue, html } from '../data/html.ts'
import { ErrorNote } from '../parts/notes.ts'

export function Login() {
  const token = useSignal('')
  const submit = (event: Event) => {
    event.preventDefault()
    if (token.value.trim() !== '') logIn(token.value)
  }
  return html`<section class="card login">
    <p>The cluster decides what you can see and change. Paste a token of your account, for example from</p>
    <pre><code>kubectl create token NAME</code></pre>
    <form onSubmit=${submit}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" spellcheck=${false} value=${token.value}
        onInput=${(event: Event) => {
          token.value = fieldValue(event)
        }} />
      <button type="submit" class="primary">Log in</button>
    </form>
    <${ErrorNote} error=${loginProblem.value || undefined} />
    <p class="fine">The token is only in the memory of this page. You enter it again after a reload.</p>
  </section>`
}
