import { diffLines } from '../data/diff-lines.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

export interface TextDiffProps {
  readonly before: string
  readonly after: string
}

const maxShown = 400

/** The changed lines of a text as a unified diff. */
export function TextDiff({ before, after }: TextDiffProps) {
  const lines = diffLines(before, after)
  if (lines.length === 0) return html`<p class="fine">The text is the same.</p>`
  return html`<pre class="diff" tabindex="0" aria-label="Changes">${lines
    .slice(0, maxShown)
    .map(line => html`<span class=${styleOf(line)}>${displayText(line, maxLine)}${'\n'}</span>`)}${
    lines.length > maxShown && `… ${lines.length - maxShown} more lines`
  }</pre>`
}

const maxLine = 400

const styleOf = (line: string) =>
  line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : line.startsWith('@@') ? 'fine' : ''
