import type { Line } from '../domain/ledger/line.ts'
import type { BookFinding, Verification } from '../operations/verify-books.ts'
import { maxFindings } from '../operations/verify-books.ts'
import type { OpenException } from '../storage/delivery/processor-exceptions.ts'
import { serialiseEvent } from '../storage/delivery/stored-journal.ts'

/** Returns a report for users, with amounts in minor units. */
export function describeVerification({ counts, balances, findings }: Verification): string {
  const replayed = Object.entries(counts).map(([kind, count]) => [kind, String(count)])
  const sums = balances.map(({ account, currency, amount }) => [account, currency, String(amount)])
  return `${table([['RECORDS', 'REPLAYED'], ...replayed])}
${table([['ACCOUNT', 'CURRENCY', 'BALANCE'], ...sums])}
${describeFindings(findings)}`
}

function describeFindings(findings: readonly BookFinding[]): string {
  if (findings.length === 0) return 'Everything adds up.\n'
  const shown = findings.slice(0, maxFindings).map(({ record, message }) => `${record}: ${message}\n`)
  const more = findings.length - shown.length
  const rest = more === 0 ? '' : `and ${more} more\n`
  return `${shown.join('')}${rest}${findings.length} things do not add up.\n`
}

export function describePayouts(lines: readonly Line[]): string {
  return lines
    .map(({ id, merchantId, amount }) => `${merchantId} ${amount.amount} ${amount.currency} line ${id}\n`)
    .join('')
}

/** Columns as wide as their widest cell; the last one to the right, for numbers. */
function table(rows: readonly (readonly string[])[]): string {
  const columns = rows[0]?.length ?? 0
  const widths = Array.from({ length: columns }, (_, i) => Math.max(...rows.map(row => row[i]?.length ?? 0)))
  return rows
    .map(row => {
      const cells = row.map((cell, i) =>
        i === columns - 1 ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0),
      )
      return `${cells.join('  ')}\n`
    })
    .join('')
}

/** One line for each, and the event as JSON below it. */
export function describeExceptions(exceptions: readonly OpenException[]): string {
  if (exceptions.length === 0) return 'there are no open exceptions\n'
  const lines = exceptions.map(({ id, test, createdMs, outcome, reason, event }) => {
    const head = [id, new Date(createdMs).toISOString(), test ? 'test' : 'live', outcome].join(' ')
    return `${head}: ${reason}\n  ${serialiseEvent(event)}\n`
  })
  return lines.join('')
}
