import { useSignal } from '@preact/signals'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

const shownMs = 1_500

/** A text with a button that copies it. Browsers allow copying only on secure origins. */
export function CopiedText({ text, name }: { readonly text: string; readonly name: string }) {
  const done = useSignal('')
  const copy = async () => {
    done.value = await navigator.clipboard.writeText(text).then(
      () => 'Copied',
      () => 'Not allowed by the browser',
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
