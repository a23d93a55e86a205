import type { ResourceList } from '../../../api/shapes.ts'
import { displayText, formatAge, formatMs, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { Empty, State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Pod = ResourceList['pods'][number]

const columns: readonly Column<Pod>[] = [
  { label: 'Pod', cell: ({ pod }) => displayText(pod), sortBy: ({ pod }) => pod },
  {
    label: 'State',
    cell: ({ isReporting, lastReportMsAgo }) =>
      isReporting
        ? html`<${State} tone="good">reporting<//>`
        : html`<${State} tone="error">silent for ${formatAge(lastReportMsAgo)}<//>`,
  },
  {
    label: 'Backend',
    cell: ({ backend, backendProblem }) =>
      backendProblem === ''
        ? html`<${State} tone="good">${displayText(backend)}<//>`
        : html`<${State} tone="error">${displayText(backend)} fails<//>`,
  },
  {
    label: 'Decisions/s',
    kind: 'number',
    cell: ({ decisionsPerSecond }) => formatRate(decisionsPerSecond),
    sortBy: ({ decisionsPerSecond }) => decisionsPerSecond,
  },
  { label: 'p50', kind: 'number', cell: ({ p50Ms }) => formatMs(p50Ms), sortBy: ({ p50Ms }) => p50Ms },
  { label: 'p99', kind: 'number', cell: ({ p99Ms }) => formatMs(p99Ms), sortBy: ({ p99Ms }) => p99Ms },
]

const none = 'No rate limit pod reports. Check that the pods run and can reach the feed of the operator.'

export function PodsTable({ pods, isKnown }: { readonly pods: readonly Pod[]; readonly isKnown: boolean }) {
  if (!isKnown) return null
  if (pods.length === 0) return html`<${Empty}>${none}<//>`
  const rowKey = ({ namespace, pod }: Pod) => `${namespace}/${pod}`
  return showTable({ title: 'Rate limit pods', items: pods, rowKey, columns })
}
