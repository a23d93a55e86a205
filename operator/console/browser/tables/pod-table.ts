import type { ResourceList } from '../../../api/shapes.ts'
import { displayText, formatAge, formatMs, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { Empty, State } from '../parts/notes.ts'

type Pod = ResourceList['pods'][number]

/** The pods of the rate limit service, with their backends. */
export function PodTable({ pods, isKnown }: { readonly pods: readonly Pod[]; readonly isKnown: boolean }) {
  if (!isKnown) return null
  if (pods.length === 0) return html`<${Empty}>No rate limit pod reports.<//>`
  return html`<div class="scroll" role="region" aria-label="Rate limit pods" tabindex="0">
    <table>
      <caption>Rate limit pods</caption>
      <thead>
        <tr>
          <th scope="col">Pod</th>
          <th scope="col">State</th>
          <th scope="col">Backend</th>
          <th scope="col" class="number">Decisions/s</th>
          <th scope="col" class="number">p50</th>
          <th scope="col" class="number">p99</th>
        </tr>
      </thead>
      <tbody>${pods.map(pod => html`<${PodRow} key=${pod.pod} pod=${pod} />`)}</tbody>
    </table>
  </div>`
}

function PodRow({ pod }: { readonly pod: Pod }) {
  return html`<tr>
    <th scope="row">${displayText(pod.pod)}</th>
    <td>
      ${
        pod.isReporting
          ? html`<${State} tone="good">reports<//>`
          : html`<${State} tone="error">silent for ${formatAge(pod.lastReportMsAgo)}<//>`
      }
    </td>
    <td>
      ${
        pod.backendProblem === ''
          ? html`<${State} tone="good">${pod.backend}<//>`
          : html`<${State} tone="error">${pod.backend} fails<//>`
      }
    </td>
    <td class="number">${formatRate(pod.decisionsPerSecond)}</td>
    <td class="number">${formatMs(pod.p50Ms)}</td>
    <td class="number">${formatMs(pod.p99Ms)}</td>
  </tr>`
}
