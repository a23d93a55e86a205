import { createHash } from 'node:crypto'
import { accessSync, constants, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Clock } from '@tollway/chassis/clock.ts'
import { maxSocketPathBytes } from '@tollway/chassis/net/unix-socket-path.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import type { LogLine } from './lines.ts'
import { type ReplicaOptions, ReplicaProcess } from './replica.ts'

interface RedisOptions extends Pick<ReplicaOptions, 'clock' | 'random' | 'newUid' | 'forceShutdown'> {
  /** The folder for the socket. This process must have locked it. */
  readonly stateDir: string
  readonly log: (line: LogLine) => void
  /** Where `redis-server` is searched; the PATH of this process when left out. */
  readonly path?: string
  /** The memory limit in MB, beyond which Redis rejects new keys; 256 when left out. */
  readonly maxMemoryMb?: number
}

export interface RunningRedis {
  /** The path of the socket, as REDIS_URL for the socket type `unix`. */
  readonly url: string
  stop(): Promise<void>
}

const startDeadlineMs = 5_000
const stopGraceMs = 3_000

/**
 * Runs a Redis that is not reachable over a network and stores nothing on disk. Resolves when it answers. If
 * it ends, it is restarted without keys. It ends with this process, even if this process is killed. A Redis
 * that an earlier operator left behind, because its guard was killed too, is ended first.
 *
 * Rejects with an `InfrastructureError` if `redis-server` is not on the path or does not answer in time.
 */
export async function startRedisFor(options: RedisOptions): Promise<RunningRedis> {
  const server = findProgram('redis-server', options.path ?? process.env['PATH'] ?? '')
  const directory = socketDirectory(options.stateDir)
  const url = join(directory.path, 'redis.sock')
  await endLeftOver(url, options.clock)
  const lastLines: string[] = []
  let ended: string | undefined
  const replica = new ReplicaProcess({
    ...options,
    name: 'redis',
    command: {
      command: process.execPath,
      args: [guard, server, ...redisArgs(url, options.maxMemoryMb ?? 256)],
    },
    envFor: () => ({ PATH: process.env['PATH'] ?? '' }),
    addresses: {},
    onChange: () => {},
    onEnd: how => {
      ended = how
    },
    log: line => {
      options.log(line)
      lastLines.push(line.text)
      if (lastLines.length > 5) lastLines.shift()
    },
  })
  const stop = async () => {
    await replica.stop(stopGraceMs)
    directory.remove()
  }
  const endMs = options.clock.monotonicMs() + startDeadlineMs
  while (!(await answers(url))) {
    if (ended !== undefined || options.clock.monotonicMs() > endMs) {
      await stop()
      const how = ended ?? `nothing within ${startDeadlineMs} ms`
      throw new InfrastructureError(
        `${server} does not answer: ${how}; its last output: ${lastLines.join(' | ')}`,
      )
    }
    await pause(10)
  }
  return { url, stop }
}

const guard = fileURLToPath(new URL('guard.ts', import.meta.url))

function redisArgs(socket: string, maxMemoryMb: number): readonly string[] {
  const settings: Readonly<Record<string, string>> = {
    port: '0',
    unixsocket: socket,
    unixsocketperm: '700',
    save: '',
    appendonly: 'no',
    'maxmemory-policy': 'noeviction',
    maxmemory: `${maxMemoryMb}mb`,
    daemonize: 'no',
  }
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
}

function findProgram(name: string, path: string): string {
  for (const directory of path.split(delimiter)) {
    if (directory === '') continue
    try {
      accessSync(join(directory, name), constants.X_OK)
      return join(directory, name)
    } catch {
      // The program may be in one of the next directories.
    }
  }
  throw new InfrastructureError(
    `${name} was not found on the PATH (${path}): install it (Debian: apt-get install ${name}), ` +
      'name a Redis that runs already, or count in memory',
  )
}

/**
 * Returns the state folder. If the path of the socket would be too long there, returns a folder in the
 * temporary directory; its name depends only on the state folder, so that a Redis that was left behind is
 * found.
 */
function socketDirectory(stateDir: string): { readonly path: string; remove(): void } {
  const path = resolve(stateDir)
  if (Buffer.byteLength(join(path, 'redis.sock')) <= maxSocketPathBytes) {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    return { path, remove: () => rmSync(join(path, 'redis.sock'), { force: true }) }
  }
  const short = join(tmpdir(), `tollway-${createHash('sha256').update(path).digest('hex').slice(0, 16)}`)
  mkdirSync(short, { recursive: true, mode: 0o700 })
  const info = lstatSync(short)
  // Any user may create this folder. Its owner could read and change the counters, so it must belong to this
  // user.
  if (!info.isDirectory() || info.uid !== process.getuid?.() || (info.mode & 0o077) !== 0) {
    throw new InfrastructureError(`${short} is not a folder of this user alone: remove it`)
  }
  return { path: short, remove: () => rmSync(short, { recursive: true, force: true }) }
}

/** Ends a Redis that was left behind. No other operator uses it, because the state folder is locked. */
async function endLeftOver(socket: string, clock: Clock): Promise<void> {
  const endMs = clock.monotonicMs() + startDeadlineMs
  while (await answers(socket)) {
    if (clock.monotonicMs() > endMs) {
      throw new InfrastructureError(`a Redis that listens on ${socket} does not end: kill it`)
    }
    await ask(socket, 'SHUTDOWN NOSAVE')
    await pause(10)
  }
}

async function answers(socket: string): Promise<boolean> {
  return (await ask(socket, 'PING')).startsWith('+PONG')
}

/** Resolves with the start of the answer; empty if there is none. */
function ask(socket: string, command: string): Promise<string> {
  return new Promise(resolve => {
    const connection = connect(socket)
    const end = (answer: string) => {
      connection.destroy()
      resolve(answer)
    }
    connection.setTimeout(1_000, () => end(''))
    connection.on('error', () => end(''))
    connection.on('close', () => end(''))
    connection.on('data', reply => end(reply.toString('latin1')))
    connection.write(`${command}\r\n`)
  })
}
