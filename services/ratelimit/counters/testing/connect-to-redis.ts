import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { RespConnection, type RespConnectionOptions } from '../redis/resp/connection.ts'
import type { RedisReply } from '../redis/resp/reply-parser.ts'
import { RespWriter, requestHead } from '../redis/resp/request-writer.ts'

const patience = { interval: 5, timeout: 10_000 }

/** Opens a connection that reconnects at once; it is closed after the test. */
export function connectTo(t: TestContext, options: Partial<RespConnectionOptions>): RespConnection {
  const backoff = createBackoff({ initialMs: 5, maxMs: 20, factor: 2, jitter: 0, random: Math.random })
  const connection = new RespConnection({ timeoutMs: 5_000, backoff, ...options })
  t.after(() => connection.close())
  return connection
}

export async function connected(
  t: TestContext,
  options: Parameters<typeof connectTo>[1],
): Promise<RespConnection> {
  const connection = connectTo(t, options)
  await t.waitFor(() => assert.ok(connection.healthy, connection.problem), patience)
  return connection
}

/** The replies, and why some are missing. */
export interface Outcome {
  readonly replies: readonly RedisReply[]
  readonly problem: string | undefined
}

/** Sends the requests, such as `INCRBY a 1`, in one write. */
export function ask(connection: RespConnection, ...lines: string[]): Promise<Outcome> {
  const requests = new RespWriter()
  for (const line of lines) {
    const [name = '', ...args] = line.split(' ')
    requests.begin(requestHead(name, args.length))
    for (const argument of args) requests.text(argument)
  }
  return new Promise(resolve => {
    connection.send(requests, (replies, problem) => resolve({ replies, problem }))
  })
}

/** Waits until the connection has failed with a matching problem. */
export function waitForProblem(t: TestContext, connection: RespConnection, words: RegExp): Promise<void> {
  return t.waitFor(() => assert.match(connection.problem, words), patience)
}
