import type { StreamList } from '../../../api/stream-shapes.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayText, formatAge, formatBytes, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { Empty, ErrorNote, State } from '../parts/notes.ts'

const everyMs = 1_000
const page = { limit: 200 }

/** The requests of all brokers. */
export function StreamsPage() {
  const { answer, problem } = usePoll<StreamList>('/streams', page, everyMs)
  return html`
    <${ErrorNote} error=${problem} />
    ${answer?.missing.map(
      ({ broker, problem }) => html`<p class="note warning">
        ${displayText(broker)} does not answer: ${displayText(problem)}
      </p>`,
    )}
    ${answer?.items.length === 0 && html`<${Empty}>No broker has a request.<//>`}
    ${answer && answer.items.length > 0 && html`<${Table} list=${answer} />`}
  `
}

function Table({ list }: { readonly list: StreamList }) {
  return html`<div class="scroll" role="region" aria-label="Requests" tabindex="0">
    <table>
      <caption>Requests</caption>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col">Request</th>
          <th scope="col">Target</th>
          <th scope="col">State</th>
          <th scope="col">Route</th>
          <th scope="col">Producers</th>
          <th scope="col">Consumers, and messages behind</th>
          <th scope="col" class="number">Messages</th>
          <th scope="col" class="number">Bytes</th>
          <th scope="col" class="number">Age</th>
        </tr>
      </thead>
      <tbody>${list.items.map(item => html`<${Row} key=${item.key} item=${item} />`)}</tbody>
    </table>
    ${list.next !== undefined && html`<p class="more">More requests exist; tollway streams list has all.</p>`}
  </div>`
}

function Row({ item }: { readonly item: StreamList['items'][number] }) {
  const { streamId, requestId, targetObjectId, state, end, route, producers, consumers } = item
  const { messages, bytes, ageMs } = item
  const most = Math.max(0, ...consumers.map(({ messagesBehind }) => messagesBehind))
  return html`<tr>
    <th scope="row">${displayText(streamId)}</th>
    <td>${displayText(requestId)}</td>
    <td>${displayText(targetObjectId)}</td>
    <td><${State} tone=${state === 'running' ? 'good' : 'quiet'}>${displayText(end || state)}<//></td>
    <td>${displayText(route)}</td>
    <td>${producers.join(', ') || 'none'}</td>
    <td>
      ${consumers.length === 0 ? 'none' : `${consumers.length}, at most ${formatCount(most)} behind`}
      ${
        consumers.length > 0 &&
        html`<details>
          <summary>Each consumer</summary>
          <ul>
            ${consumers.map(
              ({ peer, messagesBehind, bytesBehind }) => html`<li>
                ${peer}: ${formatCount(messagesBehind)} messages, ${formatBytes(bytesBehind)}
              </li>`,
            )}
          </ul>
        </details>`
      }
    </td>
    <td class="number">${messages === undefined ? '–' : formatCount(messages)}</td>
    <td class="number">${bytes === undefined ? '–' : formatBytes(bytes)}</td>
    <td class="number">${formatAge(ageMs)}</td>
  </tr>`
}
