import { displayEntries, displayText, formatCount, formatTimeMs } from '../data/format.ts'
import { html } from '../data/html.ts'
import type { TapDecision } from '../data/tap-buffer.ts'
import { State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

const columns: readonly Column<TapDecision>[] = [
  { label: 'Time', cell: ({ atMs }) => formatTimeMs(atMs), style: () => 'short' },
  {
    label: 'Decision',
    cell: ({ over }) => html`<${State} tone=${over ? 'error' : 'good'}>${over ? 'rejected' : 'allowed'}<//>`,
  },
  { label: 'Entries', cell: ({ entries }) => displayEntries(entries) },
  { label: 'Rule', cell: ({ rule }) => displayText(rule) || '–' },
  { label: 'Reason', cell: ({ reason }) => displayText(reason) },
  {
    label: 'Remaining',
    kind: 'number',
    cell: ({ limit, remaining }) =>
      limit === 0 ? '–' : `${formatCount(remaining)} of ${formatCount(limit)}`,
  },
  { label: 'Pod', cell: ({ pod }) => displayText(pod) },
]

export function DecisionsTable({ decisions }: { readonly decisions: readonly TapDecision[] }) {
  const title = 'Decisions, newest first'
  return showTable({
    title,
    items: decisions,
    rowKey: ({ id }) => id,
    columns,
    style: 'compact',
  })
}
