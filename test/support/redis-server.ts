import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
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

/**
 * Arguments of a Redis that answers what its append-only file has, so that a kill loses nothing. With `everysec`, the
 * default, it answers up to two seconds earlier while the disk is slow.
 */
export const losingNothing = ['--appendonly', 'yes', '--appendfsync', 'always']

/** @param args additional arguments of redis-server, such as `['--requirepass', 'x']` */
export async function startRedis(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<RedisServer> {
  const folder = temporaryFolder('tollway-redis')
  const [port = 0] = await freePorts(1)
  const socketPath = join(folder, 'redis.sock')
  const fixed = ['--bind', '127.0.0.1', '--port', String(port), '--unixsocket', socketPath, '--dir', folder]
  const volatile = ['--save', '', '--appendonly', 'no', '--daemonize', 'no']
  const start = () => startProcess([...fixed, ...volatile, ...args], env)
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

/** Lets a new Redis divide limits of `delivery: Quota` at once. It would grant nothing for 20 s. */
export async function endLearning(redis: RedisServer): Promise<void> {
  for (let shard = 0; shard < 16; shard += 1) {
    await redis.command('HSET', `{shares-${shard}}`, 'learn_until', '1')
  }
}

/** A redis-server whose clock a test can step. Its timers do not notice. */
export interface SteppedRedis extends RedisServer {
  /** Sets how far the clock is ahead of the time, in whole seconds. */
  setClock(aheadSeconds: number): void
}

/** Needs a C compiler, `cc`. */
export async function startSteppedRedis(args: readonly string[] = []): Promise<SteppedRedis> {
  const folder = temporaryFolder('tollway-stepped-clock')
  const library = join(folder, 'stepped-clock.so')
  const source = join(import.meta.dirname, 'stepped-clock.c')
  const compiled = spawnSync('cc', ['-shared', '-fPIC', '-o', library, source], { encoding: 'utf8' })
  if (compiled.status !== 0) throw new Error(`cc failed: ${compiled.stderr}`)
  const clock = join(folder, 'seconds')
  const file = openSync(clock, 'w')
  const setClock = (aheadSeconds: number) => void writeSync(file, `${aheadSeconds}`.padEnd(20), 0)
  setClock(0)
  const redis = await startRedis(args, { LD_PRELOAD: library, STEPPED_CLOCK: clock })
  return {
    ...redis,
    get pid() {
      return redis.pid
    },
    setClock,
    async stop() {
      await redis.stop()
      closeSync(file)
    },
  }
}

async function startProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ChildProcess> {
  const child = spawn('redis-server', args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
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
