import { displayEntries, displayText, formatTime } from '../data/format.ts'
import { html } from '../data/html.ts'
import type { Decision } from '../data/tap-buffer.ts'
import { State } from '../parts/notes.ts'

/** Decisions, each with the rule and the reason. */
export function DecisionTable({ decisions }: { readonly decisions: readonly Decision[] }) {
  return html`<div class="scroll" role="region" aria-label="Decisions" tabindex="0">
    <table>
      <caption>Decisions, the newest first</caption>
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col">Decision</th>
          <th scope="col">Entries</th>
          <th scope="col">Rule</th>
          <th scope="col">Reason</th>
          <th scope="col" class="number">Left</th>
          <th scope="col">Pod</th>
        </tr>
      </thead>
      <tbody>
        ${decisions.map(
          ({ id, atMs, over, entries, rule, reason, remaining, limit, pod }) => html`<tr key=${id}>
            <td>${formatTime(atMs)}</td>
            <td><${State} tone=${over ? 'error' : 'good'}>${over ? 'over' : 'allowed'}<//></td>
            <td>${displayEntries(entries)}</td>
            <td>${displayText(rule) || '–'}</td>
            <td>${displayText(reason)}</td>
            <td class="number">${limit === 0 ? '–' : `${remaining} of ${limit}`}</td>
            <td>${displayText(pod)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
