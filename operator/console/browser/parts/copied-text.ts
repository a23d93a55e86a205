import { useSignal } from '@preact/signals'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

const shownMs = 1_500

/** A text that other programs need, with a button that copies it. Browsers copy only on secure origins. */
export function CopiedText({ text, name }: { readonly text: string; readonly name: string }) {
  const done = useSignal('')
  const copy = async () => {
    done.value = await navigator.clipboard.writeText(text).then(
      () => 'Copied',
      () => 'The browser forbids it',
    )
    setTimeout(() => {
      done.value = ''
    }, shownMs)
  }
  return html`<code>${displayText(text)}</code>${
    window.isSecureContext &&
    html`${' '}<button type="button" class="copy" onClick=${copy}>
      ${done.value || 'Copy'}<span class="hidden">${' '}${name}</span>
    </button>`
  }`
}
