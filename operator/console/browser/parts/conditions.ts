import type { ResourceList } from '../../../api/shapes.ts'
import { abnormalConditions } from '../data/abnormal-conditions.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { State } from './notes.ts'

type Condition = ResourceList['items'][number]['conditions'][number]

/** Shows the condition Ready in a word and, if the resource is ready, the abnormal conditions. */
export function ReadyState({ conditions }: { readonly conditions: readonly Condition[] }) {
  const ready = conditions.find(({ type }) => type === 'Ready')
  if (ready === undefined) return html`<${State} tone="quiet">unknown<//>`
  if (ready.status !== 'True') {
    const tone = ready.status === 'False' ? 'error' : 'warning'
    return html`<${State} tone=${tone}>${displayText(ready.reason)}<//>`
  }
  const abnormal = abnormalConditions(conditions)
  const tone = abnormal.length === 0 ? 'good' : 'warning'
  return html`<${State} tone=${tone}>${['Ready', ...abnormal.map(({ type }) => type)].join(', ')}<//>`
}

const maxMessage = 400

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
