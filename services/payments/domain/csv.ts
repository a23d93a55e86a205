/** A value of a table. Text can come from a merchant or a payer; numbers and flags are the service's own. */
export type Cell = string | bigint | number | boolean | null

/**
 * What makes a spreadsheet program take text for a formula, also after white space and in full width. Such
 * text gets an apostrophe in front, which these programs take for the mark of a text.
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
