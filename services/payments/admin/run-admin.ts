import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type { CommandOutput } from '@tollway/chassis/command-line/command.ts'
import { executeCommand } from '@tollway/chassis/command-line/run-command.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { request } from '@tollway/chassis/net/node-http.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { type AdminAddress, type AdminAnswer, adminFile, adminPath } from '../http/servers/admin-server.ts'
import { dataFolder, openDatabase, openStorage } from '../open-storage.ts'
import { createPayments } from '../service.ts'
import { type Settings, settings } from '../settings.ts'
import { StorageError } from '../storage/storage.ts'
import { type AdminCall, createPaymentsCommand } from './command.ts'
import { type AdminCommand, createCommand } from './commands.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Runs a command of `tollway payments`. Resolves with the exit code, and never rejects. */
export function runAdmin(args: readonly string[], env: Environment, output: CommandOutput): Promise<number> {
  const command = createPaymentsCommand({ options: {}, perform: call => perform(call, env, output) })
  return executeCommand(command, 'tollway payments', args, output)
}

async function perform(
  { request, args }: AdminCall,
  env: Environment,
  output: CommandOutput,
): Promise<number> {
  const read = readAdminSettings(env)
  try {
    return await runHere(createCommand(request), read, output)
  } catch (error) {
    if (!isInUse(error, read)) throw error
    const code = await askService(dataFolder(read), args, output)
    if (code !== undefined) return code
    throw new Error(`${(error as Error).message}\n${adviceFor(read)}`)
  }
}

/** Reports whether another process, usually the service, may have the embedded database open. */
function isInUse(error: unknown, { databaseUrl }: Settings): boolean {
  return error instanceof StorageError && error.code === 'unavailable' && databaseUrl === ''
}

function adviceFor(read: Settings): string {
  return `Only one process can open the embedded database in ${dataFolder(read)}, and the one that has it takes
no commands: stop the service, run this again, and start it. With PostgreSQL (DATABASE_URL) both work
at once.`
}

function readAdminSettings(env: Environment): Settings {
  const read = readSettings(settings, env, path => readFileSync(path, 'utf8'))
  if ('value' in read) return read.value
  throw new Error(read.problems.map(({ name, message }) => `${name}: ${message}`).join('; '))
}

const log = createLog({ level: 'warn', format: 'text' })

async function runHere(command: AdminCommand, read: Settings, output: CommandOutput): Promise<number> {
  const open = command.schema === 'current' ? openStorage : openDatabase
  const storage = await open(read, log)
  try {
    return await command.run({ storage, payments: () => createPayments(read, storage) }, output)
  } finally {
    await storage.close()
  }
}

const maxAddressBytes = 1_024

/**
 * Sends the command to the service that has the embedded database open, and prints the output. Has no
 * timeout, because the verification of large books takes minutes.
 *
 * @returns the exit code; undefined if no service accepts commands
 * @throws Error if the connection is lost, so that the outcome is unknown
 */
export async function askService(
  folder: string,
  args: readonly string[],
  output: CommandOutput,
): Promise<number | undefined> {
  const address = readAddress(join(folder, adminFile))
  if (address === undefined) return undefined
  const asking = request({
    host: '127.0.0.1',
    port: address.port,
    method: 'POST',
    path: adminPath,
    agent: false,
    headers: { authorization: `Bearer ${address.token}`, 'content-type': 'application/json' },
  })
  asking.end(JSON.stringify(args))
  let response: IncomingMessage
  try {
    ;[response] = (await once(asking, 'response')) as [IncomingMessage]
  } catch (error) {
    // The service was killed, and its file is still there.
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return undefined
    throw new Error(
      `the service did not answer: ${(error as Error).message}; check the outcome before you repeat the command`,
    )
  }
  if (response.statusCode !== 200) {
    response.resume()
    return undefined
  }
  const { code, output: printed } = (await json(response)) as AdminAnswer
  for (const { to, text } of printed) output[to](text)
  return code
}

function readAddress(path: string): AdminAddress | undefined {
  try {
    return JSON.parse(readBoundedFile(path, maxAddressBytes).toString('utf8')) as AdminAddress
  } catch {
    return undefined
  }
}
