import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { createPaymentsCommand } from '@tollway/payments/admin/command.ts'

const program = fileURLToPath(new URL('../../../services/payments/admin.ts', import.meta.url))

/** Runs in a separate process, so that this program does not load the modules of the service. */
export const paymentsCommand: Command = createPaymentsCommand({
  options: {},
  perform: ({ args }) => runProcess(process.execPath, [program, ...args]),
})

/** Runs a program with the terminal of this process. Resolves with its exit code. */
export async function runProcess(file: string, args: readonly string[]): Promise<number> {
  const child = spawn(file, args, { stdio: 'inherit' })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? exitCodes.failed
}
