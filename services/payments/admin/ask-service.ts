import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type { Output } from '@tollway/chassis/command-line/command.ts'
import { request } from '@tollway/chassis/net/node-http.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import { type AdminAddress, type AdminAnswer, adminFile, adminPath } from '../http/servers/admin-server.ts'

const maxAddressBytes = 1_024

/**
 * Has the command run by the service that has the embedded database of this folder open. Waits as long as it
 * takes: a proof of large books takes minutes.
 *
 * @returns the exit code; undefined when there is no service that takes commands
 * @throws Error when the connection is lost, and it is not known what was done
 */
export async function askService(
  folder: string,
  args: readonly string[],
  output: Output,
): Promise<number | undefined> {
  const address = readAddress(join(folder, adminFile))
  if (address === undefined) return undefined
  const asking = request({
    ...{ host: '127.0.0.1', port: address.port, method: 'POST', path: adminPath, agent: false },
    headers: { authorization: `Bearer ${address.token}`, 'content-type': 'application/json' },
  })
  asking.end(JSON.stringify(args))
  let response: IncomingMessage
  try {
    ;[response] = (await once(asking, 'response')) as [IncomingMessage]
  } catch (error) {
    // The file of a service that was killed.
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return undefined
    throw new Error(`the service did not answer: ${(error as Error).message}; look before you repeat it`)
  }
  if (response.statusCode !== 200) {
    response.resume()
    return undefined
  }
  const { code, output: said } = (await json(response)) as AdminAnswer
  for (const { to, text } of said) output[to](text)
  return code
}

function readAddress(path: string): AdminAddress | undefined {
  try {
    return JSON.parse(readBoundedFile(path, maxAddressBytes).toString('utf8')) as AdminAddress
  } catch {
    return undefined
  }
}
