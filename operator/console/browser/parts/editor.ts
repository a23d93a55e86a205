import { useRef } from 'preact/hooks'
import { fieldValue, html } from '../data/html.ts'

interface EditorProps {
  readonly label: string
  readonly text: string
  readonly onInput: (text: string) => void
  /** The lines with a problem, from 1. */
  readonly wrongLines: ReadonlySet<number>
  readonly describedBy: string
}

const maxLines = 20_000

/** The tab key moves the focus, as in other fields. */
export function Editor({ label, text, onInput, wrongLines, describedBy }: EditorProps) {
  const gutter = useRef<HTMLPreElement>(null)
  const lines = Math.min(maxLines, text.split('\n').length)
  const numbers = Array.from({ length: lines }, (_, index) =>
    wrongLines.has(index + 1) ? `▸ ${index + 1}` : `${index + 1}`,
  )
  return html`<div class="editor">
    <label for="editor">${label}</label>
    <div class="lines">
      <pre ref=${gutter} aria-hidden="true">${numbers.join('\n')}</pre>
      <textarea id="editor" wrap="off" spellcheck=${false} autocomplete="off"
        aria-describedby=${describedBy} value=${text}
        onInput=${(event: Event) => onInput(fieldValue(event))}
        onScroll=${(event: Event) => {
          if (gutter.current) gutter.current.scrollTop = (event.target as HTMLTextAreaElement).scrollTop
        }}></textarea>
    </div>
  </div>`
}
