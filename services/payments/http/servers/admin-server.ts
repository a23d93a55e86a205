import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { executeCommand } from '@tollway/chassis/command-line/run-command.ts'
import { type AdminCall, createPaymentsCommand } from '../../admin/command.ts'
import { type AdminContext, createCommand } from '../../admin/commands.ts'
import { reject } from '../../domain/rejections.ts'
import { jsonAnswer } from '../answer.ts'
import { RejectedError } from '../failure.ts'
import { hasBearerToken } from '../request-headers.ts'
import {
  createJsonServer,
  type JsonServer,
  type JsonServerOptions,
  readParsedBody,
  sendAnswer,
  sendRejection,
} from './server.ts'

/** The file with the port and the token of the admin server. Only its owner can read it. */
export const adminFile = 'admin.json'
export const adminPath = '/commands'

export interface AdminAddress {
  readonly port: number
  readonly token: string
}

/** The result of a command: the exit code, and the output in order. */
export interface AdminAnswer {
  readonly code: number
  readonly output: readonly { readonly to: 'print' | 'printError'; readonly text: string }[]
}

const host = '127.0.0.1'
const tokenBytes = 32
const maxArguments = 16

/**
 * Starts the server that runs the commands of `tollway payments` in this process, because no other process
 * can open the embedded database. It listens only on the loopback address, and requires the token in
 * `adminFile`.
 */
export async function startAdminServer(
  options: JsonServerOptions & AdminContext & { readonly folder: string },
): Promise<Pick<JsonServer, 'close'>> {
  const token = Buffer.from(options.randomBytes(tokenBytes)).toString('hex')
  const server = createJsonServer(options)
  const { app } = server
  app.addHook('onRequest', async request => {
    if (!hasBearerToken(request.headers.authorization, token)) throw new RejectedError(reject('unauthorized'))
  })
  app.post(adminPath, async (request, reply) => {
    const args = readParsedBody(request).value
    if (!isArguments(args)) return sendRejection(reply, reject('malformed_body'))
    return sendAnswer(reply, jsonAnswer(200, { ...(await run(args, options)) }))
  })
  app.setNotFoundHandler((_, reply) => sendRejection(reply, reject('not_found')))
  const address: AdminAddress = { port: await server.listen({ host, port: 0 }), token }
  const file = join(options.folder, adminFile)
  mkdirSync(options.folder, { recursive: true, mode: 0o700 })
  // Deletes the file of a killed process first, because its permissions would stay.
  rmSync(file, { force: true })
  writeFileSync(file, JSON.stringify(address), { flag: 'wx', mode: 0o600 })
  return {
    async close(timeoutMs) {
      rmSync(file, { force: true })
      await server.close(timeoutMs)
    },
  }
}

function isArguments(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= maxArguments && value.every(one => typeof one === 'string')
}

async function run(args: readonly string[], context: AdminContext): Promise<AdminAnswer> {
  const printed: { readonly to: 'print' | 'printError'; readonly text: string }[] = []
  const output = {
    print: (text: string) => void printed.push({ to: 'print', text }),
    printError: (text: string) => void printed.push({ to: 'printError', text }),
  }
  const perform = ({ request }: AdminCall) => createCommand(request).run(context, output)
  const command = createPaymentsCommand({ options: {}, perform })
  return { code: await executeCommand(command, 'tollway payments', args, output), output: printed }
}
