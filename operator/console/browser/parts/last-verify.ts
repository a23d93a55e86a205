import type { MerchantList } from '../../../api/shapes.ts'
import { displayText, formatAge, formatCount, formatMoment } from '../data/format.ts'
import { html } from '../data/html.ts'
import { type Column, showTable } from '../tables/data-table.ts'
import { Empty, State } from './notes.ts'

type Verify = NonNullable<MerchantList['lastVerify']>
type Finding = Verify['shown'][number]

const maxMessage = 400

const columns: readonly Column<Finding>[] = [
  { label: 'Record', cell: ({ record }) => displayText(record) },
  { label: 'Merchant', cell: ({ merchant }) => displayText(merchant) || '–' },
  { label: 'Inconsistency', cell: ({ message }) => displayText(message, maxMessage) },
]

export function LastVerifyCard({ verify }: { readonly verify: Verify | null }) {
  return html`<section class="card" aria-labelledby="verify">
    <h2 id="verify">Last verification of the books</h2>
    ${
      verify
        ? html`<${Result} ...${verify} />`
        : html`<${Empty}>No result yet. Run <code>tollway payments verify</code> to verify the books.<//>`
    }
  </section>`
}

function Result({ passed, beganMs, endedMs, findings, records, shown }: Verify) {
  const count = `${formatCount(findings)} ${findings === 1 ? 'inconsistency' : 'inconsistencies'}`
  const replayed = Object.entries(records).map(
    ([name, number]) => `${formatCount(number)} ${displayText(name)}`,
  )
  const table = showTable({
    title: 'Inconsistencies',
    items: shown,
    rowKey: ({ record, message }) => `${record} ${message}`,
    columns,
    hasMore: shown.length < findings,
    moreHint: 'tollway payments verify lists all.',
  })
  return html`
    <p class="facts">
      <${State} tone=${passed ? 'good' : 'error'}>${passed ? 'the books are consistent' : count}<//>
      <span>${formatMoment(endedMs)}, ${formatAge(Date.now() - endedMs)} ago</span>
      <span>took ${formatAge(endedMs - beganMs)}</span>
    </p>
    <p class="fine">Replayed: ${replayed.join(', ')}.</p>
    ${shown.length > 0 && table}
  `
}
