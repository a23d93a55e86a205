import { useSignal } from '@preact/signals'
import { formatDescriptorEntries } from '../../../api/entries.ts'
import type { TopKeysAnswer } from '../../../api/shapes.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayEntries, formatAge, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { type Column, showTable } from '../tables/data-table.ts'
import { Choice } from './choice.ts'
import { chosenEntries } from './key-counter.ts'
import { Empty, ErrorNote, HashedNote } from './notes.ts'

interface TopKeysProps {
  readonly domain: string
  readonly rule: string
}

const everyMs = 2_000
const maxShown = 10

/** The keys of a rule with the most hits since the first call. */
export function TopKeysList({ domain, rule }: TopKeysProps) {
  const by = useSignal('hits')
  const { answer, problem } = usePoll<TopKeysAnswer>(
    `/domains/${encodeURIComponent(domain)}/top`,
    { rule, by: by.value },
    everyMs,
  )
  const choose = (value: string) => {
    by.value = value
  }
  return html`
    <${Choice} id="by" label="Top keys by" ...${{ options, chosen: by.value }} onChoose=${choose} />
    <${ErrorNote} error=${problem} />
    ${answer && html`<${Keys} answer=${answer} />`}
  `
}

const options = [{ value: 'hits' }, { value: 'rejected', text: 'rejected hits' }]

type Key = TopKeysAnswer['keys'][number]

/** Keys link to their counters, unless the values are hashed. */
const buildColumns = (hashed: boolean): readonly Column<Key>[] => [
  {
    label: 'Key',
    cell: ({ entries }) => (hashed ? displayEntries(entries) : html`<${KeyLink} entries=${entries} />`),
  },
  { label: 'Hits', kind: 'number', cell: ({ count }) => formatCount(count) },
  { label: 'Error at most', kind: 'number', cell: ({ error }) => formatCount(error) },
]

function KeyLink({ entries }: Pick<Key, 'entries'>) {
  return html`<button type="button" class="link" onClick=${() => {
    chosenEntries.value = formatDescriptorEntries(entries)
  }}>${displayEntries(entries)}</button>`
}

function Keys({ answer }: { readonly answer: TopKeysAnswer }) {
  const { keys, sinceMs, hashed } = answer
  const since = `counted for ${formatAge(sinceMs)}`
  if (keys.length === 0) return html`<${Empty}>No key yet, ${since}.<//>`
  const table = showTable({
    title: `Top keys, ${since}`,
    items: keys.slice(0, maxShown),
    rowKey: ({ entries }) => JSON.stringify(entries),
    columns: buildColumns(hashed),
  })
  return html`${table}${hashed && html`<${HashedNote} />`}`
}
