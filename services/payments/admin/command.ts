import {
  type Command,
  type CommandAction,
  type CommandOutput,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import { type Options, optionalText } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { quote } from '@tollway/chassis/text.ts'
import { maxAmount } from '../domain/money/money.ts'

export type AdminRequest =
  | { readonly action: 'verify' | 'list exceptions' }
  | { readonly action: 'pay out'; readonly period: string | undefined; readonly merchant: string | undefined }
  | {
      readonly action: 'raise dispute'
      readonly transactionId: string
      readonly amount: bigint
      readonly reason: string | null
      readonly dueMs: number | null
    }
  | { readonly action: 'resolve dispute'; readonly disputeId: string; readonly outcome: 'won' | 'lost' }
  | { readonly action: 'retry exception'; readonly id: string }
  | { readonly action: 'close exception'; readonly id: string; readonly note: string }

/** A request, with the arguments from which another process can parse it again. */
export interface AdminCall {
  readonly request: AdminRequest
  readonly args: readonly string[]
  /** The values of `AdminPerformer.options`. */
  readonly sourceValues: Readonly<Record<string, unknown>>
}

/** Performs requests, in this process or by another one. */
interface AdminPerformer {
  /** Additional options of all subcommands, which select the service to which a request goes. */
  readonly options: Options
  perform(call: AdminCall, output: CommandOutput): Promise<number>
}

/** Returns the command `payments`. Of the service's modules, this file imports only `money.ts`. */
export const createPaymentsCommand = (performer: AdminPerformer): Command => ({
  name: 'payments',
  summary: 'verify the books of the payments service, pay out, raise disputes',
  subcommands: {
    verify: action(performer, ['verify'], {}, [], () => ({ action: 'verify' })),
    payout: action(performer, ['payout'], payoutOptions, [], ({ period, merchant }) => ({
      action: 'pay out',
      period: period === undefined ? undefined : parsePeriod(period),
      merchant,
    })),
    dispute: {
      subcommands: {
        raise: action(performer, ['dispute', 'raise'], raiseOptions, ['TRANSACTION'], (values, id) => ({
          action: 'raise dispute',
          transactionId: id,
          amount: parseAmount(requireOption('--amount', values.amount)),
          reason: values.reason ?? null,
          dueMs: values.due === undefined ? null : parseDay(values.due),
        })),
        win: action(performer, ['dispute', 'win'], {}, ['DISPUTE'], (_, disputeId) => ({
          action: 'resolve dispute',
          disputeId,
          outcome: 'won',
        })),
        lose: action(performer, ['dispute', 'lose'], {}, ['DISPUTE'], (_, disputeId) => ({
          action: 'resolve dispute',
          disputeId,
          outcome: 'lost',
        })),
      },
    },
    exceptions: action(performer, ['exceptions'], {}, [], () => ({ action: 'list exceptions' })),
    exception: {
      subcommands: {
        retry: action(performer, ['exception', 'retry'], {}, ['ID'], (_, id) => ({
          action: 'retry exception',
          id,
        })),
        close: action(performer, ['exception', 'close'], closeOptions, ['ID'], ({ note }, id) => ({
          action: 'close exception',
          id,
          note: requireOption('--note TEXT', note || undefined),
        })),
      },
    },
  },
  help: {
    usage: [
      'verify',
      'payout [--period NAME] [--merchant ID]',
      'dispute raise TRANSACTION --amount MINOR_UNITS [--reason TEXT] [--due YYYY-MM-DD]',
      'dispute win|lose DISPUTE',
      'exceptions',
      'exception retry ID',
      'exception close ID --note TEXT',
    ],
    description: `\
Works on the database of the payments service. The environment has the same variables as for the service:
DATABASE_URL (or DATABASE_URL_FILE), or STATE_DIR for the embedded database. Only one process can open the
embedded database: while the service runs, the service runs the command.

  verify           replays all records and verifies that they add up; stores the result, changes nothing else
  payout           pays out the balance of each merchant once a period
  dispute raise    holds the amount that a payer's bank claims, and the fee, also above the refundable amount
  dispute win      returns the amount to the merchant
  dispute lose     returns the amount to the payer
  exceptions       lists the events of the processor that could not be booked
  exception retry  books an event after its cause is fixed, such as a missing rate
  exception close  closes an exception that was resolved in another way`,
    exitCodes: '0 done, 1 the books do not add up or the action was rejected, 2 the action could not run.',
    examples: [
      'tollway payments verify',
      'tollway payments payout --period 2026-07',
      'tollway payments dispute raise 0197f3a2-5c00-7a10-8b3c-5d2e9f014a05 --amount 5000 --reason fraudulent',
    ],
  },
})

const value = (placeholder: string, help: string) => optionalText({ placeholder, help })

const payoutOptions = {
  period: value('NAME', "payout: the name of the period (default: today's date in UTC, as PAYOUT_TIME uses)"),
  merchant: value('ID', 'payout: pay out only this merchant'),
}
const raiseOptions = {
  amount: value('MINOR_UNITS', 'dispute raise: the amount that the bank of the payer claims'),
  reason: value('TEXT', 'dispute raise: the reason that the bank names'),
  due: value('YYYY-MM-DD', 'dispute raise: the date until which the merchant can answer'),
}
const closeOptions = { note: value('TEXT', 'exception close: how the exception was resolved') }

type Texts<Name extends string> = Readonly<Record<Name, string | undefined>>

/** Returns a subcommand that parses its options and its operand to a request for `perform`. */
function action<const Own extends Readonly<Record<string, ReturnType<typeof optionalText>>>>(
  { options, perform }: AdminPerformer,
  path: readonly string[],
  own: Own,
  operands: readonly string[],
  toRequest: (values: Texts<keyof Own & string>, operand: string) => AdminRequest,
): CommandAction {
  return {
    options: { ...own, ...options },
    ...(operands.length > 0 && { operands: { kind: 'none' } }),
    run(args, output) {
      const { values, sourceValues, positionals } = parseWithSource(args, own, options, true)
      const [operand = '', ...more] = operands.length > 0 ? positionals : ['', ...positionals]
      if (operands.length > 0 && operand === '') throw new UsageError(`missing argument ${operands[0]}`)
      if (more.length > 0) throw new UsageError(`unexpected argument ${quote(more[0] ?? '')}`)
      const texts = values as Texts<keyof Own & string>
      const given = Object.keys(own).flatMap(name =>
        sourceValues[name] === undefined ? [] : [`--${name}=${sourceValues[name]}`],
      )
      const request = toRequest(texts, operand)
      return perform({ request, args: [...path, ...given, '--', ...positionals], sourceValues }, output)
    },
  }
}

function parsePeriod(text: string): string {
  if (/^[\w.:-]{1,64}$/.test(text)) return text
  throw new UsageError(`--period ${text}: must be 1 to 64 letters, digits, ".", ":", "_" and "-"`)
}

function parseAmount(text: string): bigint {
  const amount = /^\d{1,16}$/.test(text) ? BigInt(text) : 0n
  if (amount >= 1n && amount <= maxAmount) return amount
  throw new UsageError(`--amount ${text}: must be a whole number of minor units from 1 to ${maxAmount}`)
}

/** Returns the last millisecond of a day in UTC. */
function parseDay(text: string): number {
  const endMs = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T23:59:59.999Z`) : Number.NaN
  if (!Number.isNaN(endMs)) return endMs
  throw new UsageError(`--due ${text}: must be a day such as 2026-07-24`)
}
