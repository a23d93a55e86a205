/** A value of a table. Text can come from a merchant or a payer; numbers and flags are the service's own. */
export type Cell = string | bigint | number | boolean | null

/**
 * Matches text that a spreadsheet program would run as a formula, also after white space and in full width.
 * An apostrophe in front of it marks it as text.
 */
const formula = /^\s*[=+\-@＝＋－＠\t\r\n]/u

/** One record of RFC 4180, with its line end. Text is always quoted. */
export function csvRecord(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return `${cell}`
  const safe = formula.test(cell) ? `'${cell}` : cell
  return `"${safe.replaceAll('"', '""')}"`
}
