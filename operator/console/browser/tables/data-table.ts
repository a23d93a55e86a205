import { type Signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { displayText, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'

export interface Column<Item> {
  readonly label: string
  /** The kind of the cells. The label of an `action` column is only for screen readers. */
  readonly kind?: 'text' | 'number' | 'action'
  /** Returns the content of a cell. A string is shown through `displayText`. */
  readonly cell: (item: Item) => ComponentChildren
  /** The value by which the user can sort the rows. */
  readonly sortBy?: (item: Item) => number | string
  readonly style?: (item: Item) => string
}

interface DataTableProps<Item> {
  readonly title: string
  readonly items: readonly Item[]
  readonly rowKey: (item: Item) => string | number
  /** Cells of the first column are the headers of their rows. */
  readonly columns: readonly Column<Item>[]
  readonly isCurrent?: (item: Item) => boolean
  /** Whether more items exist than those in `items`. */
  readonly hasMore?: boolean
  readonly moreHint?: string
  /** `compact`: a row takes two lines in a narrow window. */
  readonly style?: 'compact'
}

/** The number of rows that are shown at first: a browser takes seconds to render thousands. */
const rowsAtOnce = 200

/**
 * A table that scrolls in its own region. In a narrow window the style sheet shows each row as a block of
 * labelled values. ARIA roles keep it a table for screen readers there.
 */
function DataTable<Item>(properties: DataTableProps<Item>) {
  const { title, items, rowKey, columns, isCurrent, hasMore = false, moreHint = '', style = '' } = properties
  const maxRows = useSignal(rowsAtOnce)
  const order = useSignal<Order | undefined>(undefined)
  const shown = sorted(items, columns, order.value).slice(0, maxRows.value)
  const more = hasMore ? ' more than' : ''
  const showMore = () => {
    maxRows.value += rowsAtOnce
  }
  return html`<div class="scroll ${style}" role="region" aria-label=${title} tabindex="0">
    <table role="table">
      <caption>${title}</caption>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(column => html`<${Heading} ...${{ column, order }} />`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${shown.map(item => html`<${Row} key=${rowKey(item)} ...${{ item, columns, isCurrent }} />`)}
      </tbody>
    </table>
    ${
      (shown.length < items.length || hasMore) &&
      html`<p class="more">
        The first ${formatCount(shown.length)} of${more} ${formatCount(items.length)} are shown.
        ${
          shown.length < items.length
            ? html`${' '}<button type="button" onClick=${showMore}>Show ${rowsAtOnce} more</button>`
            : ` ${moreHint}`
        }
      </p>`
    }
  </div>`
}

export const showTable = <Item>(properties: DataTableProps<Item>) => html`<${DataTable} ...${properties} />`

interface Order {
  readonly label: string
  readonly direction: 'ascending' | 'descending'
}

function sorted<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  order: Order | undefined,
): readonly Item[] {
  const sortBy = columns.find(({ label }) => label === order?.label)?.sortBy
  if (sortBy === undefined) return items
  const sign = order?.direction === 'ascending' ? 1 : -1
  return items.toSorted((a, b) => {
    const [left, right] = [sortBy(a), sortBy(b)]
    return left < right ? -sign : left > right ? sign : 0
  })
}

interface HeadingProps<Item> {
  readonly column: Column<Item>
  readonly order: Signal<Order | undefined>
}

/** The first click sorts numbers in descending order, and texts in ascending order. */
function Heading<Item>({ column: { label, kind = 'text', sortBy }, order }: HeadingProps<Item>) {
  const direction = order.value?.label === label ? order.value.direction : undefined
  const first = kind === 'number' ? 'descending' : 'ascending'
  const second = first === 'descending' ? 'ascending' : 'descending'
  const sort = () => {
    order.value = direction === second ? undefined : { label, direction: direction ? second : first }
  }
  const content =
    sortBy === undefined
      ? label
      : html`<button type="button" class="sort ${direction ?? ''}" onClick=${sort}>${label}</button>`
  return html`<th role="columnheader" scope="col" class=${kind} aria-sort=${direction}>
    ${kind === 'action' ? html`<span class="hidden">${label}</span>` : content}
  </th>`
}

type RowProps<Item> = Pick<DataTableProps<Item>, 'columns' | 'isCurrent'> & { readonly item: Item }

function Row<Item>({ item, columns, isCurrent }: RowProps<Item>) {
  return html`<tr role="row" aria-current=${isCurrent?.(item) ? 'true' : undefined}>
    ${columns.map((column, index) => html`<${Cell} isHeader=${index === 0} ...${{ column, item }} />`)}
  </tr>`
}

interface CellProps<Item> {
  readonly column: Column<Item>
  readonly item: Item
  readonly isHeader: boolean
}

const maxCell = 400

function Cell<Item>({ column, item, isHeader }: CellProps<Item>) {
  const { label, kind = 'text', cell, style } = column
  const content = cell(item)
  const shown = typeof content === 'string' ? displayText(content, maxCell) : content
  const properties = { class: `${kind} ${style?.(item) ?? ''}`, 'data-label': kind === 'action' ? '' : label }
  return isHeader
    ? html`<th role="rowheader" scope="row" ...${properties}>${shown}</th>`
    : html`<td role="cell" ...${properties}>${shown}</td>`
}
