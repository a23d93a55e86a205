import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { adminHelp } from '@tollway/payments/admin/help.ts'
import { type Command, exitCodes } from '../command.ts'
import { text } from '../options/option.ts'

const program = fileURLToPath(new URL('../../../services/payments/admin.ts', import.meta.url))

const value = (placeholder: string, help: string) => text({ placeholder, help })

export const payments: Command = {
  name: 'payments',
  summary: 'verify the books of the payments service, pay out, raise disputes',
  help: adminHelp,
  options: {},
  actions: {
    verify: { options: {} },
    payout: {
      options: {
        period: value('NAME', 'the period that payout pays, each merchant once (default: the date in UTC)'),
        merchant: value('ID', 'the only merchant that payout pays'),
      },
    },
    dispute: {
      options: {
        amount: value('MINOR_UNITS', 'the amount that the bank of the payer claims'),
        reason: value('TEXT', 'the reason that the bank names'),
        due: value('YYYY-MM-DD', 'the date until which the merchant can answer'),
      },
      operands: { kind: 'values', values: ['raise', 'win', 'lose'] },
    },
    exceptions: { options: {} },
    exception: {
      options: { note: value('TEXT', 'how the exception was resolved, for close') },
      operands: { kind: 'values', values: ['retry', 'close'] },
    },
  },
  /** Runs in a separate process, because this program does not contain the modules of the service. */
  async run(args) {
    const child = spawn(process.execPath, [program, ...args], { stdio: 'inherit' })
    const [code] = (await once(child, 'exit')) as [number | null]
    return code ?? exitCodes.failed
  },
}
