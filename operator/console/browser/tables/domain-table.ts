import type { DomainList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate, formatShare } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { howToListAll, NoDomain } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

const Share = ({ value }: { readonly value: number }) => html`<span class="share">
  <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect width="100" height="6" />
    <rect class="part" width=${value * 100} height="6" />
  </svg>
  ${formatShare(value)}
</span>`

type Domain = DomainList['items'][number]

const columns: readonly Column<Domain>[] = [
  {
    label: 'Domain',
    sortBy: ({ domain }) => domain,
    cell: ({ domain }) => html`<a href=${linkTo('domain', { domain })}>${displayText(domain)}</a>`,
  },
  { label: 'Resource', cell: ({ owner }) => (owner === null ? 'none' : `${owner.namespace}/${owner.name}`) },
  number('Rules', ({ rules }) => rules, formatCount),
  number('Calls/s', ({ callsPerSecond }) => callsPerSecond, formatRate),
  number('Hits/s', ({ hitsPerSecond }) => hitsPerSecond, formatRate),
  {
    ...number('Rejected hits/s', ({ rejectedPerSecond }) => rejectedPerSecond, formatRate),
    style: ({ rejectedPerSecond }) => (rejectedPerSecond > 0 ? 'rejected' : ''),
  },
  {
    label: 'Rejected share',
    kind: 'number',
    cell: domain => html`<${Share} value=${rejectedShare(domain)} />`,
    sortBy: rejectedShare,
  },
  number('Allowed hits', ({ allowed }) => allowed, formatCount),
  number('Rejected hits', ({ refused }) => refused, formatCount),
]

function number(
  label: string,
  sortBy: (domain: Domain) => number,
  format: (value: number) => string,
): Column<Domain> {
  return { label, kind: 'number', cell: domain => format(sortBy(domain)), sortBy }
}

/** Returns the share of the present hits that is rejected, from 0 to 1; 0 without hits. */
function rejectedShare({ hitsPerSecond, rejectedPerSecond }: Domain): number {
  return hitsPerSecond === 0 ? 0 : Math.min(1, rejectedPerSecond / hitsPerSecond)
}

export function DomainsTable({ list }: { readonly list: DomainList | undefined }) {
  if (list === undefined) return null
  if (list.items.length === 0) return html`<${NoDomain} />`
  const rowKey = ({ domain }: Domain) => domain
  return showTable({
    title: 'Domains',
    items: list.items,
    rowKey,
    columns,
    hasMore: list.next !== undefined,
    moreHint: howToListAll(),
  })
}
