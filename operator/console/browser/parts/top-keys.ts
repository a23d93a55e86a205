import { useSignal } from '@preact/signals'
import type { TopKeysAnswer } from '../../../api/shapes.ts'
import { usePoll } from '../calls/use-poll.ts'
import { writeEntries } from '../data/entries.ts'
import { displayEntries, formatAge, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { chosenEntries } from './key-counter.ts'
import { Empty, ErrorNote } from './notes.ts'

export interface TopKeysProps {
  readonly domain: string
  readonly rule: string
}

const everyMs = 2_000
const maxShown = 10

/** The keys of a rule with the most hits. The first call starts the count. */
export function TopKeys({ domain, rule }: TopKeysProps) {
  const by = useSignal<'refused' | 'hits'>('hits')
  const { answer, problem } = usePoll<TopKeysAnswer>(
    `/domains/${encodeURIComponent(domain)}/top`,
    { rule, by: by.value },
    everyMs,
  )
  const change = (event: Event) => {
    by.value = (event.target as HTMLSelectElement).value as 'refused' | 'hits'
  }
  return html`<div class="scroll" role="region" aria-label="Top keys" tabindex="0">
    <p class="choice">
      <label for="by">Top keys by</label>
      <select id="by" value=${by.value} onChange=${change}>
        <option value="hits">hits</option>
        <option value="refused">refused hits</option>
      </select>
    </p>
    <${ErrorNote} error=${problem} />
    ${answer && html`<${Keys} answer=${answer} />`}
  </div>`
}

function Keys({ answer }: { readonly answer: TopKeysAnswer }) {
  const { keys, sinceMs } = answer
  const since = `counted for ${formatAge(sinceMs)}`
  if (keys.length === 0) return html`<${Empty}>No key yet, ${since}.<//>`
  return html`<table>
    <caption>Top keys, ${since}</caption>
    <thead>
      <tr>
        <th scope="col">Key</th>
        <th scope="col" class="number">Hits</th>
        <th scope="col" class="number">Error at most</th>
      </tr>
    </thead>
    <tbody>
      ${keys.slice(0, maxShown).map(
        ({ entries, count, error }) => html`<tr>
          <th scope="row">
            <button type="button" class="link" onClick=${() => {
              chosenEntries.value = writeEntries(entries)
            }}>${displayEntries(entries)}</button>
          </th>
          <td class="number">${formatCount(count)}</td>
          <td class="number">${formatCount(error)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`
}
