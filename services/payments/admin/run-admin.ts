import { readFileSync } from 'node:fs'
import type { Output } from '@tollway/chassis/command-line/command.ts'
import { runCommand } from '@tollway/chassis/command-line/run-command.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { folderOf, openDatabase, openStorage } from '../open-storage.ts'
import { createPayments } from '../service.ts'
import { type Settings, settings } from '../settings.ts'
import { StorageError } from '../storage/storage.ts'
import { askService } from './ask-service.ts'
import { type AdminCall, createPaymentsCommand } from './command.ts'
import { type AdminCommand, commandOf } from './commands.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Resolves with the exit code, and never rejects. */
export function runAdmin(args: readonly string[], env: Environment, output: Output): Promise<number> {
  const command = createPaymentsCommand({ options: {}, perform: call => perform(call, env, output) })
  return runCommand(command, 'tollway payments', args, output)
}

async function perform({ request, args }: AdminCall, env: Environment, output: Output): Promise<number> {
  const read = settingsOf(env)
  try {
    return await runHere(commandOf(request), read, output)
  } catch (error) {
    if (!isHeldByOther(error, read)) throw error
    const code = await askService(folderOf(read), args, output)
    if (code !== undefined) return code
    throw new Error(`${(error as Error).message}\n${adviceFor(read)}`)
  }
}

/** Whether it is the embedded database, which another process has open: the service, as a rule. */
function isHeldByOther(error: unknown, { databaseUrl }: Settings): boolean {
  return error instanceof StorageError && error.code === 'unavailable' && databaseUrl === ''
}

/** The one way that fails on a machine on which all is well. */
function adviceFor(read: Settings): string {
  return `Only one process can open the embedded database in ${folderOf(read)}, and the one that has it takes
no commands: stop the service, run this again, and start it. With PostgreSQL (DATABASE_URL) both work
at once.`
}

function settingsOf(env: Environment): Settings {
  const read = readSettings(settings, env, path => readFileSync(path, 'utf8'))
  if ('value' in read) return read.value
  throw new Error(read.problems.map(({ name, message }) => `${name}: ${message}`).join('; '))
}

const log = createLog({ level: 'warn', format: 'text' })

async function runHere(command: AdminCommand, read: Settings, output: Output): Promise<number> {
  const open = command.schema === 'current' ? openStorage : openDatabase
  const storage = await open(read, log)
  try {
    return await command.run({ storage, payments: () => createPayments(read, storage) }, output)
  } finally {
    await storage.close()
  }
}
