import type { MerchantList } from '../../../api/shapes.ts'
import { displayText, formatCurrency } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { CopiedText } from '../parts/copied-text.ts'
import { State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Merchant = MerchantList['items'][number]

const maxMessage = 400

const columns: readonly Column<Merchant>[] = [
  { label: 'Resource', cell: ({ namespace, name }) => displayText(`${namespace}/${name}`) },
  { label: 'Subject', cell: ({ subject }) => displayText(subject) },
  { label: 'State', cell: ({ conditions }) => html`<${ReadyState} conditions=${conditions} />` },
  {
    label: 'Credentials',
    cell: ({ credentials: { ready, reason, message } }) => html`
      <${State} tone=${ready ? 'good' : 'error'}>${ready ? 'ready' : displayText(reason)}<//>
      <p class="fine">${displayText(message, maxMessage)}</p>
    `,
  },
  {
    label: 'Next payout',
    kind: 'number',
    cell: ({ balances }) => (balances ? displayMoney(balances.available) : '–'),
    style: ({ balances }) => (balances?.available.amount.startsWith('-') ? 'rejected' : ''),
  },
  {
    label: 'Authorised',
    kind: 'number',
    cell: ({ balances }) => balances?.pending.map(displayMoney).join(', ') || '–',
  },
  {
    label: 'Details',
    kind: 'action',
    cell: ({ details, conditions }) => html`
      <details>
        <summary>Ids and links</summary>
        <dl class="conditions">
          ${Object.entries(details).map(
            ([key, value]) => html`<dt>${displayText(key)}</dt>
              <dd><${CopiedText} text=${value} name=${key} /></dd>`,
          )}
        </dl>
      </details>
      <${ConditionList} conditions=${conditions} />
    `,
  },
]

const displayMoney = (money: Parameters<typeof formatCurrency>[0]) => displayText(formatCurrency(money))

export function MerchantsTable({ list }: { readonly list: MerchantList }) {
  return showTable({
    title: 'Merchants',
    items: list.items,
    rowKey: ({ namespace, name }) => `${namespace}/${name}`,
    columns,
    hasMore: list.next !== undefined,
    moreHint: 'tollway status lists all.',
  })
}
