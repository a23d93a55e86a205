import type { ResourceList } from '../../../api/shapes.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { State } from './notes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

/** The condition Ready in a word; the others are in its description. */
export function ReadyState({ conditions }: { readonly conditions: readonly Condition[] }) {
  const ready = conditions.find(({ type }) => type === 'Ready')
  if (ready === undefined) return html`<${State} tone="quiet">unknown<//>`
  const tone = ready.status === 'True' ? 'good' : ready.status === 'False' ? 'error' : 'warning'
  return html`<${State} tone=${tone}>${ready.status === 'True' ? 'Ready' : displayText(ready.reason)}<//>`
}

const maxMessage = 400

/** All conditions with their messages, behind a summary. */
export function ConditionList({ conditions }: { readonly conditions: readonly Condition[] }) {
  return html`<details>
    <summary>Conditions</summary>
    <dl class="conditions">
      ${conditions.map(
        ({ type, status, reason, message }) => html`
          <dt>${displayText(`${type}: ${status}`)}</dt>
          <dd>${displayText(`${reason}: ${message}`, maxMessage)}</dd>
        `,
      )}
    </dl>
  </details>`
}
