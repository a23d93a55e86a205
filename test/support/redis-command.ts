import { connect, type TcpNetConnectOpts } from 'node:net'
import {
  createReplyParser,
  isArrayReply,
  isErrorReply,
  type RedisReply,
} from '../../services/ratelimit/counters/redis/resp/reply-parser.ts'

/**
 * Runs one command on a separate connection, and returns the output of redis-cli in a pipe: the elements of a
 * list, one per line, with nested lists flattened, and an empty line for null. A run of the tests sends a
 * thousand commands, and starting redis-cli takes five times longer than the answer.
 *
 * @param server the socket path, or host and port, of a Redis without a password
 * @throws Error with Redis's text when Redis rejects it, or when it ends before the answer
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
      if (problem !== undefined) throw new Error(`malformed reply from Redis: ${problem}`)
      if (lines !== undefined) return lines.join('\n').replace(/\n$/, '')
    }
  } finally {
    socket.destroy()
  }
  throw new Error(`${command.join(' ')}: the server has closed the connection`)
}

function linesOf(reply: RedisReply): readonly string[] {
  if (isErrorReply(reply)) throw new Error(reply.error)
  if (isArrayReply(reply)) return reply.length === 0 ? [''] : reply.flatMap(linesOf)
  return [String(reply ?? '')]
}
