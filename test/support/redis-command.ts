import { connect, type TcpNetConnectOpts } from 'node:net'
import {
  createReplyParser,
  isArrayReply,
  isErrorReply,
  type Reply,
} from '@tollway/ratelimit/counters/resp/reply-parser.ts'

/**
 * Runs one command on a connection of its own, and answers what redis-cli prints into a pipe: the elements of a list
 * a line each, whatever lists they stand in, and an empty line for nothing. A run of the tests asks a thousand
 * times, and to start redis-cli takes five times longer than to be answered.
 *
 * @param server the socket path, or host and port, of a Redis that asks for no password
 * @throws Error with Redis's text when Redis refuses it, or when it ends before it has answered.
 */
export async function askRedis(
  server: string | TcpNetConnectOpts,
  command: readonly string[],
): Promise<string> {
  const socket = typeof server === 'string' ? connect(server) : connect(server)
  try {
    const parts = command.map(part => `$${Buffer.byteLength(part)}\r\n${part}\r\n`)
    socket.write(`*${command.length}\r\n${parts.join('')}`)
    let lines: readonly string[] | undefined
    const parser = createReplyParser(reply => {
      lines = linesOf(reply)
    })
    for await (const chunk of socket) {
      const problem = parser.push(chunk, chunk.length)
      if (problem !== undefined) throw new Error(`no reply of Redis: ${problem}`)
      if (lines !== undefined) return lines.join('\n').replace(/\n$/, '')
    }
  } finally {
    socket.destroy()
  }
  throw new Error(`${command.join(' ')}: the server has closed the connection`)
}

function linesOf(reply: Reply): readonly string[] {
  if (isErrorReply(reply)) throw new Error(reply.error)
  if (isArrayReply(reply)) return reply.length === 0 ? [''] : reply.flatMap(linesOf)
  return [String(reply ?? '')]
}
