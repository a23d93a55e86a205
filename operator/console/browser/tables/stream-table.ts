import type { StreamList } from '../../../api/stream-shapes.ts'
import { displayText, formatAge, formatBytes, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Stream = StreamList['items'][number]

/** Returns the number of messages by which the slowest consumer is behind; -1 without consumers. */
const mostBehind = ({ consumers }: Pick<Stream, 'consumers'>) =>
  Math.max(-1, ...consumers.map(({ messagesBehind }) => messagesBehind))

const columns: readonly Column<Stream>[] = [
  { label: 'Request', cell: ({ requestId }) => displayText(requestId), sortBy: ({ requestId }) => requestId },
  { label: 'Stream', cell: ({ streamId }) => displayText(streamId) },
  { label: 'Target', cell: ({ targetObjectId }) => displayText(targetObjectId) },
  {
    label: 'State',
    cell: ({ state, end }) =>
      html`<${State} tone=${state === 'running' ? 'good' : 'quiet'}>${displayText(end || state)}<//>`,
  },
  { label: 'Route', cell: ({ route }) => displayText(route) },
  { label: 'Producers', cell: ({ producers }) => producers.join(', ') || 'none' },
  {
    label: 'Consumers',
    cell: ({ consumers }) => html`<${Consumers} consumers=${consumers} />`,
    sortBy: mostBehind,
  },
  {
    label: 'Messages',
    kind: 'number',
    cell: ({ messages }) => shown(messages, formatCount),
    sortBy: ({ messages = -1 }) => messages,
  },
  {
    label: 'Bytes',
    kind: 'number',
    cell: ({ bytes }) => shown(bytes, formatBytes),
    sortBy: ({ bytes = -1 }) => bytes,
  },
  { label: 'Age', kind: 'number', cell: ({ ageMs }) => formatAge(ageMs), sortBy: ({ ageMs }) => ageMs },
  {
    label: 'Action',
    kind: 'action',
    cell: ({ key, streamId, requestId }) => html`<a href=${linkTo('streams', { key })}>
      Preview<span class="hidden">${' '}of ${displayText(`${streamId} ${requestId}`)}</span>
    </a>`,
  },
]

const shown = (value: number | undefined, format: (value: number) => string) =>
  value === undefined ? '–' : format(value)

function Consumers({ consumers }: Pick<Stream, 'consumers'>) {
  if (consumers.length === 0) return 'none'
  const most = mostBehind({ consumers })
  return html`<details>
    <summary>${consumers.length}, at most ${formatCount(most)} behind</summary>
    <ul>
      ${consumers.map(
        ({ peer, messagesBehind, bytesBehind }) => html`<li>
          ${displayText(peer)}: ${formatCount(messagesBehind)} messages, ${formatBytes(bytesBehind)}
        </li>`,
      )}
    </ul>
  </details>`
}

interface StreamTableProps {
  readonly list: StreamList
  /** The key of the request whose preview is shown; undefined if none is. */
  readonly shown: string | undefined
}

export function StreamsTable({ list, shown }: StreamTableProps) {
  return showTable({
    title: 'Requests',
    items: list.items,
    rowKey: ({ key }) => key,
    columns,
    isCurrent: ({ key }) => key === shown,
    hasMore: list.next !== undefined,
    moreHint: 'tollway streams list lists all.',
  })
}
