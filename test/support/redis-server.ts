import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePorts } from './free-ports.ts'
import { askRedis } from './redis-command.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'
import { temporaryFolder } from './temporary-folder.ts'

/**
 * A redis-server in a temporary folder, which is removed when it is stopped. It has no persistence, and a
 * restart has the same port and socket.
 */
export interface RedisServer extends ServerProcess {
  readonly port: number
  readonly socketPath: string
  /** `redis://127.0.0.1:port`. */
  readonly url: string
  /**
   * Runs one command and returns the output of redis-cli; rejects with Redis's text when Redis rejects it.
   */
  command(...args: string[]): Promise<string>
}

const startTimeoutMs = 10_000

/** @param args additional arguments of redis-server, such as `['--requirepass', 'x']` */
export async function startRedis(args: readonly string[] = []): Promise<RedisServer> {
  const folder = temporaryFolder('tollway-redis')
  const [port = 0] = await freePorts(1)
  const socketPath = join(folder, 'redis.sock')
  const fixed = ['--bind', '127.0.0.1', '--port', String(port), '--unixsocket', socketPath, '--dir', folder]
  const volatile = ['--save', '', '--appendonly', 'no', '--daemonize', 'no']
  const start = () => startProcess([...fixed, ...volatile, ...args])
  const server = await startServerProcess(start)
  return {
    port,
    socketPath,
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return server.pid
    },
    kill: server.kill,
    restart: server.restart,
    async stop() {
      await server.stop()
    },
    command: (...command) => askRedis(socketPath, command),
  }
}

async function startProcess(args: readonly string[]): Promise<ChildProcess> {
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  const giveUp = setTimeout(() => child.kill('SIGKILL'), startTimeoutMs)
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      // The socket is listed last, when both are open.
      if (/ready to accept connections at/i.test(line)) return child
    }
  } finally {
    clearTimeout(giveUp)
    child.stdout.resume()
  }
  throw new Error(`redis-server did not start:\n${lines.join('\n')}`)
}
