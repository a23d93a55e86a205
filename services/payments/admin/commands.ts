import { parseArgs } from 'node:util'
import { isRefused, type Refused } from '../domain/refusals.ts'
import type { Dispute } from '../domain/transaction/dispute.ts'
import { payOutAll, payOutMerchant, payoutPeriod } from '../operations/background/pay-out.ts'
import { closeExceptionByHand, retryException } from '../operations/background/processor-exceptions.ts'
import { type Payments, perform } from '../operations/operation.ts'
import {
  type DisputeRequest,
  raiseDisputeByHand,
  resolveDisputeByHand,
} from '../operations/transactions/dispute-by-hand.ts'
import { storeResult, verifyBooks } from '../operations/verify-books.ts'
import { listOpenExceptions } from '../storage/delivery/processor-exceptions.ts'
import type { Storage } from '../storage/storage.ts'
import { parseAmount, parseDay, UsageError } from './arguments.ts'
import { describeExceptions, describePayouts, describeVerification } from './describe.ts'

export interface Output {
  print(text: string): void
  printError(text: string): void
}

/**
 * 0: done. 1: the books are inconsistent, or the command was refused. 2: the command is invalid, or failed.
 */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

/** A manual command of an administrator, on a database that the caller has opened. */
export interface AdminCommand {
  /** Whether the database is first migrated to this program's schema. */
  readonly schema: 'as it is' | 'current'
  /** Resolves with the exit code. */
  readonly run: (place: AdminPlace, output: Output) => Promise<number>
}

export interface AdminPlace {
  readonly storage: Storage
  readonly payments: () => Payments
}

/** @throws UsageError */
export function parseCommand([name, ...args]: readonly string[]): AdminCommand {
  switch (name) {
    case 'verify':
      parse(args, {}, 0)
      return verifyCommand
    case 'payout':
      return parsePayout(args)
    case 'dispute':
      return parseDispute(args)
    case 'exceptions':
      parse(args, {}, 0)
      return listExceptions
    case 'exception':
      return parseException(args)
    default:
      throw new UsageError(
        `there is no command "${name}"; there are verify, payout, dispute, exceptions, exception`,
      )
  }
}

type Options = Readonly<Record<string, { readonly type: 'string' }>>

/** @throws UsageError for invalid options, and unless there are `count` positional arguments */
function parse<const O extends Options>(args: readonly string[], options: O, count: number) {
  let parsed: { readonly values: Readonly<Record<string, unknown>>; readonly positionals: readonly string[] }
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  if (parsed.positionals.length !== count) {
    throw new UsageError(`${parsed.positionals.length} arguments were given, and ${count} are expected`)
  }
  return { values: parsed.values as { readonly [K in keyof O]?: string }, positionals: parsed.positionals }
}

/** The verification of a backup must not migrate it. */
const verifyCommand: AdminCommand = {
  schema: 'as it is',
  async run({ storage }, output) {
    const beganMs = Date.now()
    const verification = await verifyBooks(storage)
    output.print(describeVerification(verification))
    // A standby accepts no writes, and a backup of an earlier version has no table for the result.
    await storeResult(storage, verification, { beganMs, endedMs: Date.now() }).catch((error: Error) => {
      output.printError(`tollway payments: store the result for the console: ${error.message}\n`)
    })
    return verification.findings.length === 0 ? exitCodes.ok : exitCodes.wrong
  },
}

/** Returns a command that changes the books. */
function change(run: (payments: Payments, output: Output) => Promise<number>): AdminCommand {
  return { schema: 'current', run: ({ payments }, output) => run(payments(), output) }
}

function parsePayout(args: readonly string[]): AdminCommand {
  const options = { period: { type: 'string' }, merchant: { type: 'string' } } as const
  const { period = payoutPeriod(Date.now()), merchant } = parse(args, options, 0).values
  if (!/^[\w.:-]{1,64}$/.test(period)) {
    throw new UsageError(`--period ${period}: has 1 to 64 letters, digits, ".", ":", "_" and "-"`)
  }
  return change(async (payments, output) => {
    if (merchant === undefined) {
      await payOutAll(payments, period, line => output.print(describePayouts([line])))
      return exitCodes.ok
    }
    const line = await perform(payments, tx => payOutMerchant(tx, payments, { merchantId: merchant, period }))
    return tell(line, output, paid => describePayouts([paid]))
  })
}

function parseDispute([action, ...args]: readonly string[]): AdminCommand {
  if (action === 'win' || action === 'lose') {
    const [disputeId = ''] = parse(args, {}, 1).positionals
    const outcome = action === 'win' ? 'won' : 'lost'
    return change(async (payments, output) => {
      const dispute = await perform(payments, tx =>
        resolveDisputeByHand(tx, payments, { disputeId, outcome }),
      )
      return tell(dispute, output, ({ id, status }) => `dispute ${id} is ${status}\n`)
    })
  }
  if (action !== 'raise') throw new UsageError(`dispute ${action ?? ''}: must be raise, win or lose`)
  const request = parseRaise(args)
  return change(async (payments, output) => {
    const dispute = await perform(payments, tx => raiseDisputeByHand(tx, payments, request))
    return tell(dispute, output, describeRaised)
  })
}

function parseRaise(args: readonly string[]): DisputeRequest {
  const options = { amount: { type: 'string' }, reason: { type: 'string' }, due: { type: 'string' } } as const
  const { values, positionals } = parse(args, options, 1)
  const { amount, reason = null, due } = values
  return {
    transactionId: positionals[0] ?? '',
    amount: parseAmount(amount),
    reason,
    dueMs: due === undefined ? null : parseDay(due),
  }
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

function parseException([action, ...args]: readonly string[]): AdminCommand {
  if (action === 'retry') {
    const [id = ''] = parse(args, {}, 1).positionals
    return change(async (payments, output) => {
      const result = await perform(payments, tx => retryException(tx, payments, id))
      if (isRefused(result) || result.isBooked) return tell(result, output, () => `exception ${id}: booked\n`)
      output.printError(`tollway payments: ${result.outcome}: ${result.reason}\n`)
      return exitCodes.wrong
    })
  }
  if (action !== 'close') throw new UsageError(`exception ${action ?? ''}: must be retry or close`)
  const { values, positionals } = parse(args, { note: { type: 'string' } } as const, 1)
  const [id = ''] = positionals
  const { note = '' } = values
  if (note === '') throw new UsageError('--note TEXT: is required, and says how it was cleared up')
  return change(async (payments, output) => {
    const closed = await perform(payments, tx => closeExceptionByHand(tx, payments, { id, note }))
    return tell(closed, output, () => `exception ${id}: closed\n`)
  })
}

function tell<T extends object>(outcome: T | Refused, output: Output, describe: (done: T) => string): number {
  if (!isRefused(outcome)) {
    output.print(describe(outcome))
    return exitCodes.ok
  }
  const { message, fields } = outcome.refusal
  const details = fields.map(fault => ` ${fault.field}: ${fault.message}.`).join('')
  output.printError(`tollway payments: refused: ${message}${details}\n`)
  return exitCodes.wrong
}
