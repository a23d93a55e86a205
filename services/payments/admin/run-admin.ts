import { readFileSync } from 'node:fs'
import { createLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { folderOf, openDatabase, openStorage } from '../open-storage.ts'
import { createPayments } from '../service.ts'
import { type Settings, settings } from '../settings.ts'
import { StorageError } from '../storage/storage.ts'
import { UsageError } from './arguments.ts'
import { askService } from './ask-service.ts'
import { type AdminCommand, exitCodes, type Output, parseCommand } from './commands.ts'
import { adminHelp } from './help.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Resolves with the exit code, and never rejects. */
export async function runAdmin(args: readonly string[], env: Environment, output: Output): Promise<number> {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    output.print(adminHelp)
    return args.length === 0 ? exitCodes.failed : exitCodes.ok
  }
  let read: Settings | undefined
  try {
    const command = parseCommand(args)
    read = settingsOf(env)
    return await runHere(command, read, output).catch(async (error: unknown) => {
      if (read === undefined || !isHeldByOther(error, read)) throw error
      const code = await askService(folderOf(read), args, output)
      if (code === undefined) throw error
      return code
    })
  } catch (error) {
    output.printError(`tollway payments: ${(error as Error).message}\n`)
    if (error instanceof UsageError) output.printError('tollway payments --help shows how it is called\n')
    else if (read !== undefined && isHeldByOther(error, read)) output.printError(adviceFor(read))
    return exitCodes.failed
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
at once.\n`
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
