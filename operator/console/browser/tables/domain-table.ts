import type { DomainList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { NoDomain, seeStatus } from '../parts/notes.ts'
import { type Column, DataTable, type DataTableProps } from './data-table.ts'

type Domain = DomainList['items'][number]

const columns: readonly Column<Domain>[] = [
  {
    label: 'Domain',
    cell: ({ domain }) => html`<a href=${linkTo('domain', { domain })}>${displayText(domain)}</a>`,
  },
  { label: 'Resource', cell: ({ owner }) => (owner === null ? 'none' : `${owner.namespace}/${owner.name}`) },
  { label: 'Rules', kind: 'number', cell: ({ rules }) => formatCount(rules) },
  { label: 'Calls/s', kind: 'number', cell: ({ callsPerSecond }) => formatRate(callsPerSecond) },
  { label: 'Hits/s', kind: 'number', cell: ({ hitsPerSecond }) => formatRate(hitsPerSecond) },
  {
    label: 'Rejected hits/s',
    kind: 'number',
    cell: ({ rejectedPerSecond }) => formatRate(rejectedPerSecond),
    style: ({ rejectedPerSecond }) => (rejectedPerSecond > 0 ? 'refused' : ''),
  },
  { label: 'Allowed hits', kind: 'number', cell: ({ allowed }) => formatCount(allowed) },
  { label: 'Rejected hits', kind: 'number', cell: ({ refused }) => formatCount(refused) },
]

/** Domains with their rates, each a link to its page. */
export function DomainTable({ list }: { readonly list: DomainList | undefined }) {
  if (list === undefined) return null
  if (list.items.length === 0) return html`<${NoDomain} />`
  const keyOf = ({ domain }: Domain) => domain
  const table: DataTableProps<Domain> = {
    ...{ title: 'Domains', items: list.items, keyOf, columns },
    hasMore: list.next !== undefined,
    rest: seeStatus(),
  }
  return html`<${DataTable} ...${table} />`
}
