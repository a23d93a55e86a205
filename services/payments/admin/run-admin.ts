import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createLog } from '@tollway/chassis/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { isRefused, type Refused } from '../domain/refusals.ts'
import { folderOf, openDatabase, openStorage } from '../open-storage.ts'
import {
  type DisputeRequest,
  raiseDisputeByHand,
  resolveDisputeByHand,
} from '../operations/dispute-by-hand.ts'
import { perform } from '../operations/operation.ts'
import { payOutAll, payOutMerchant, payoutPeriod } from '../operations/pay-out.ts'
import { verifyBooks } from '../operations/verify-books.ts'
import { createPayments } from '../service.ts'
import { type Settings, settings } from '../settings.ts'
import { type Storage, StorageError } from '../storage/storage.ts'
import { parseAmount, parseDay, UsageError } from './arguments.ts'
import { describePayouts, describeVerification } from './describe.ts'
import { adminHelp } from './help.ts'

export interface Output {
  print(text: string): void
  printError(text: string): void
}

/** 0: done. 1: the books do not add up, or it was refused. 2: it was not understood, or could not be done. */
const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

type Environment = Readonly<Record<string, string | undefined>>

/** Resolves with the exit code, and never rejects. */
export async function runAdmin(args: readonly string[], env: Environment, output: Output): Promise<number> {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    output.print(adminHelp)
    return args.length === 0 ? exitCodes.failed : exitCodes.ok
  }
  let read: Settings | undefined
  try {
    const work = parseWork(args)
    read = settingsOf(env)
    return await work(read, output)
  } catch (error) {
    output.printError(`tollway payments: ${(error as Error).message}\n`)
    if (error instanceof UsageError) output.printError('tollway payments --help shows how it is called\n')
    else if (read !== undefined) output.printError(adviceOn(error, read))
    return exitCodes.failed
  }
}

/** The one way that fails on a machine on which all is well. */
function adviceOn(error: unknown, read: Settings): string {
  if (!(error instanceof StorageError) || error.code !== 'unavailable' || read.databaseUrl !== '') return ''
  const folder = folderOf(read)
  return `Only one process can open the embedded database in ${folder}: stop the service, run this again,
and start it. With PostgreSQL (DATABASE_URL) both work at once.\n`
}

type Work = (settings: Settings, output: Output) => Promise<number>

function parseWork([name, ...args]: readonly string[]): Work {
  switch (name) {
    case 'verify':
      parse(args, {}, 0)
      return verifyCommand
    case 'payout':
      return parsePayout(args)
    case 'dispute':
      return parseDispute(args)
    default:
      throw new UsageError(`there is no command "${name}"; there are verify, payout, dispute`)
  }
}

type Options = Readonly<Record<string, { readonly type: 'string' }>>

/** @throws UsageError for what is not understood, and for other than so many arguments without a name */
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

function settingsOf(env: Environment): Settings {
  const read = readSettings(settings, env, path => readFileSync(path, 'utf8'))
  if ('value' in read) return read.value
  throw new Error(read.problems.map(({ name, message }) => `${name}: ${message}`).join('; '))
}

const log = createLog({ level: 'warn', format: 'text' })

/** With the schema as it is: who proves a backup changes nothing of it. */
const verifyCommand: Work = async (read, output) =>
  using(openDatabase(read, log), async storage => {
    const verification = await verifyBooks(storage)
    output.print(describeVerification(verification))
    return verification.findings.length === 0 ? exitCodes.ok : exitCodes.wrong
  })

function parsePayout(args: readonly string[]): Work {
  const options = { period: { type: 'string' }, merchant: { type: 'string' } } as const
  const { period = payoutPeriod(Date.now()), merchant } = parse(args, options, 0).values
  if (!/^[\w.:-]{1,64}$/.test(period)) {
    throw new UsageError(`--period ${period}: has 1 to 64 letters, digits, ".", ":", "_" and "-"`)
  }
  return (read, output) =>
    using(openStorage(read, log), async storage => {
      const payments = createPayments(read, storage)
      if (merchant === undefined) {
        await payOutAll(payments, period, line => output.print(describePayouts([line])))
        return exitCodes.ok
      }
      const line = await perform(payments, tx =>
        payOutMerchant(tx, payments, { merchantId: merchant, period }),
      )
      return tell(line, output, paid => describePayouts([paid]))
    })
}

function parseDispute([action, ...args]: readonly string[]): Work {
  if (action === 'win' || action === 'lose') {
    const [disputeId = ''] = parse(args, {}, 1).positionals
    const outcome = action === 'win' ? 'won' : 'lost'
    return (read, output) =>
      using(openStorage(read, log), async storage => {
        const payments = createPayments(read, storage)
        const dispute = await perform(payments, tx =>
          resolveDisputeByHand(tx, payments, { disputeId, outcome }),
        )
        return tell(dispute, output, ({ id, status }) => `dispute ${id} is ${status}\n`)
      })
  }
  if (action !== 'raise') throw new UsageError(`dispute ${action ?? ''}: must be raise, win or lose`)
  const request = parseRaise(args)
  return (read, output) =>
    using(openStorage(read, log), async storage => {
      const payments = createPayments(read, storage)
      const dispute = await perform(payments, tx => raiseDisputeByHand(tx, payments, request))
      return tell(dispute, output, ({ id }) => `dispute ${id} is open\n`)
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

async function using<T>(opening: Promise<Storage>, work: (storage: Storage) => Promise<T>): Promise<T> {
  const storage = await opening
  try {
    return await work(storage)
  } finally {
    await storage.close()
  }
}
