import { type CommandOutput, exitCodes } from '@tollway/chassis/command-line/command.ts'
import type { Line } from '../domain/ledger/ledger.ts'
import type { BookFinding } from '../domain/ledger/verify.ts'
import type { Result } from '../domain/rejections.ts'
import type { Dispute } from '../domain/transaction/dispute.ts'
import { payOutAll, payOutMerchant, payoutPeriod } from '../operations/background/pay-out.ts'
import { closeExceptionByHand, retryException } from '../operations/background/processor-exceptions.ts'
import type { Payments } from '../operations/operation.ts'
import { raiseDisputeByHand, resolveDisputeByHand } from '../operations/transactions/disputes.ts'
import { maxBookFindings, storeResult, type Verification, verifyBooks } from '../operations/verify-books.ts'
import { listOpenExceptions, type OpenException } from '../storage/delivery/processor-exceptions.ts'
import { serialiseEvent } from '../storage/delivery/test-processor-stores.ts'
import { type Storage, transact } from '../storage/storage.ts'
import type { AdminRequest } from './command.ts'

/** A command of an administrator on a database that the caller has opened. */
export interface AdminCommand {
  /** `current`: the caller migrates the database to the schema of this program first. */
  readonly schema: 'as it is' | 'current'
  /** Runs the command, and resolves with the exit code. */
  readonly run: (context: AdminContext, output: CommandOutput) => Promise<number>
}

export interface AdminContext {
  readonly storage: Storage
  readonly payments: () => Payments
}

export function createCommand(request: AdminRequest): AdminCommand {
  switch (request.action) {
    case 'verify':
      return verifyCommand
    case 'pay out':
      return payOut(request)
    case 'raise dispute':
      return raiseDispute(request)
    case 'resolve dispute':
      return resolveDispute(request)
    case 'list exceptions':
      return listExceptions
    case 'retry exception':
      return retry(request)
    case 'close exception':
      return close(request)
  }
}

type Requested<Action extends AdminRequest['action']> = Extract<AdminRequest, { readonly action: Action }>

/** Verifies the books. Does not migrate the database, because it may be a backup. */
const verifyCommand: AdminCommand = {
  schema: 'as it is',
  async run({ storage }, output) {
    const beganMs = Date.now()
    const verification = await verifyBooks(storage)
    output.print(describeVerification(verification))
    // Storing the result can fail: a standby accepts no writes, and a backup of an earlier version has no
    // table for it.
    await storeResult(storage, verification, { beganMs, endedMs: Date.now() }).catch((error: Error) => {
      output.printError(`tollway payments: store the result for the console: ${error.message}\n`)
    })
    return verification.findings.length === 0 ? exitCodes.ok : exitCodes.wrong
  },
}

/** Returns a command that changes the books, and so needs the current schema. */
function change(run: (payments: Payments, output: CommandOutput) => Promise<number>): AdminCommand {
  return { schema: 'current', run: ({ payments }, output) => run(payments(), output) }
}

function payOut({ period = payoutPeriod(Date.now()), merchant }: Requested<'pay out'>): AdminCommand {
  return change(async (payments, output) => {
    if (merchant === undefined) {
      await payOutAll(payments, period, line => output.print(describePayouts([line])))
      return exitCodes.ok
    }
    const line = await transact(payments.storage, tx =>
      payOutMerchant(tx, payments, { merchantId: merchant, period }),
    )
    return printOutcome(line, output, paid => describePayouts([paid]))
  })
}

function raiseDispute(request: Requested<'raise dispute'>): AdminCommand {
  return change(async (payments, output) => {
    const dispute = await transact(payments.storage, tx => raiseDisputeByHand(tx, payments, request))
    return printOutcome(dispute, output, describeRaised)
  })
}

function resolveDispute({ disputeId, outcome }: Requested<'resolve dispute'>): AdminCommand {
  return change(async (payments, output) => {
    const dispute = await transact(payments.storage, tx =>
      resolveDisputeByHand(tx, payments, { disputeId, outcome }),
    )
    return printOutcome(dispute, output, ({ id, status }) => `dispute ${id} is ${status}\n`)
  })
}

function describeRaised({ id, amount, excess }: Dispute): string {
  const beyond = excess === 0n ? '' : `; ${excess} of its ${amount} are more than could be refunded`
  return `dispute ${id} is open${beyond}\n`
}

const maxListed = 1_000

const listExceptions: AdminCommand = {
  schema: 'current',
  async run({ storage }, output) {
    const exceptions = await storage.read(tx => listOpenExceptions(tx, maxListed))
    output.print(describeExceptions(exceptions))
    return exitCodes.ok
  },
}

function retry({ id }: Requested<'retry exception'>): AdminCommand {
  return change(async (payments, output) => {
    const result = await transact(payments.storage, tx => retryException(tx, payments, id))
    if (!result.ok || result.value.isBooked)
      return printOutcome(result, output, () => `exception ${id}: booked\n`)
    output.printError(`tollway payments: ${result.value.outcome}: ${result.value.reason}\n`)
    return exitCodes.wrong
  })
}

function close({ id, note }: Requested<'close exception'>): AdminCommand {
  return change(async (payments, output) => {
    const closed = await transact(payments.storage, tx => closeExceptionByHand(tx, payments, { id, note }))
    return printOutcome(closed, output, () => `exception ${id}: closed\n`)
  })
}

function printOutcome<T>(outcome: Result<T>, output: CommandOutput, describe: (done: T) => string): number {
  if (outcome.ok) {
    output.print(describe(outcome.value))
    return exitCodes.ok
  }
  const { message, fields } = outcome.rejection
  const details = fields.map(fault => ` ${fault.field}: ${fault.message}.`).join('')
  output.printError(`tollway payments: rejected: ${message}${details}\n`)
  return exitCodes.wrong
}

function describeVerification({ counts, balances, findings }: Verification): string {
  const replayed = Object.entries(counts).map(([kind, count]) => [kind, String(count)])
  const sums = balances.map(({ account, currency, amount }) => [account, currency, String(amount)])
  return `${table([['RECORDS', 'REPLAYED'], ...replayed])}
${table([['ACCOUNT', 'CURRENCY', 'BALANCE'], ...sums])}
${describeFindings(findings)}`
}

function describeFindings(findings: readonly BookFinding[]): string {
  if (findings.length === 0) return 'Everything adds up.\n'
  const shown = findings.slice(0, maxBookFindings).map(({ record, message }) => `${record}: ${message}\n`)
  const more = findings.length - shown.length
  const rest = more === 0 ? '' : `and ${more} more\n`
  return `${shown.join('')}${rest}${findings.length} things do not add up.\n`
}

function describePayouts(lines: readonly Line[]): string {
  return lines
    .map(({ id, merchantId, amount }) => `${merchantId} ${amount.amount} ${amount.currency} line ${id}\n`)
    .join('')
}

/** Aligns the columns. The last column, which has numbers, is aligned to the right. */
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

function describeExceptions(exceptions: readonly OpenException[]): string {
  if (exceptions.length === 0) return 'there are no open exceptions\n'
  const lines = exceptions.map(({ id, test, createdMs, outcome, reason, event }) => {
    const head = [id, new Date(createdMs).toISOString(), test ? 'test' : 'live', outcome].join(' ')
    return `${head}: ${reason}\n  ${serialiseEvent(event)}\n`
  })
  return lines.join('')
}
