import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { nodeOptions as ownNodeOptions } from '@tollway/ratelimit/node-options.ts'
import { freePorts } from '../support/free-ports.ts'
import { type Program, startProgram } from '../support/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** A measured server, alone on its core. */
export interface MeasuredServer {
  readonly name: string
  readonly pid: number
  /** The port of gRPC; of HTTP for the yardstick that supports only that. */
  readonly port: number
  /** The port of `/json`; for a broker, of its pages. */
  readonly httpPort: number
  /**
   * Resolves with the milliseconds for which its garbage collector has stopped it since its start; undefined
   * if unknown.
   */
  gcMs(): Promise<number | undefined>
  end(): Promise<void>
}

/** The service does not start with a setting that the case needs. */
export class SettingRejected extends Error {}

export const serverCore = '0'
export const otherCore = '1'

/** Moves the load, Redis and all later child processes to the other core. */
export function moveToOtherCore(): void {
  execFileSync('taskset', ['-a', '-p', '-c', otherCore, String(process.pid)])
}

/** Returns the command and the arguments that run the program alone on the server's core. */
export function onServerCore(
  program: string,
  args: readonly string[],
): readonly [command: string, args: readonly string[]] {
  return ['taskset', ['-c', serverCore, program, ...args]]
}

export function startOnServerCore(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Program {
  const probe = join(root, 'test/bench/gc-probe.ts')
  return startProgram(...onServerCore(process.execPath, ['--import', probe, ...args]), { env })
}

export interface OursOptions {
  readonly name?: string
  /** The configuration, as YAML. */
  readonly rules: string
  readonly redisPort: number
  /** Additional settings of the service. */
  readonly settings?: Readonly<Record<string, string>>
  /** Options of Node. */
  readonly nodeOptions?: readonly string[]
}

const main = join(root, 'services/ratelimit/main.ts')
/**
 * An image has the service without types; here its code comes from a compile cache, so that neither loads the
 * type stripper, which takes 25 MiB.
 */
export const fromCache = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: join(root, 'out/compile-cache') }
const cachesFilled = new Map<string, Promise<unknown>>()

/** Starts the program once with an invalid port, so that it exits after it has loaded all code. */
export function fillCache(args: readonly string[], port: 'PORT' | 'GRPC_PORT'): Promise<unknown> {
  const key = args.join(' ')
  const filled = cachesFilled.get(key) ?? startOnServerCore(args, { ...fromCache, [port]: 'none' }).exited()
  cachesFilled.set(key, filled)
  return filled
}

/**
 * Starts the service as it is delivered: with every feature, and with counters in Redis by default.
 *
 * @throws SettingRejected when it exits and names one of the settings
 */
export async function startOurs(options: OursOptions): Promise<MeasuredServer> {
  const { rules, redisPort, settings = {}, nodeOptions = [] } = options
  await fillCache([...ownNodeOptions, main], 'PORT')
  const place = temporaryFolder('bench')
  mkdirSync(join(place, 'config'))
  writeFileSync(join(place, 'config/bench.yaml'), rules)
  const [port = 0, httpPort = 0, debugPort = 0] = await freePorts(3)
  const program = startOnServerCore([...ownNodeOptions, ...nodeOptions, main], {
    ...fromCache,
    ...nodeEnvironment,
    RUNTIME_ROOT: place,
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: `${port}`,
    HOST: '127.0.0.1',
    PORT: `${httpPort}`,
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: `${debugPort}`,
    DRAIN_DELAY: '0s',
    BACKEND_DEADLINE: '5s',
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redisPort}`,
    ...settings,
  })
  const server = measured(options.name ?? 'ours', program, port, httpPort)
  try {
    await healthy(program, httpPort, settings)
  } catch (error) {
    await server.end()
    throw error
  }
  return server
}

async function healthy(
  program: Program,
  httpPort: number,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const ended = () => program.process.exitCode !== null || program.process.signalCode !== null
  await waitFor(
    'the service to be healthy',
    async () => ended() || (await fetch(`http://127.0.0.1:${httpPort}/healthcheck`)).ok,
  )
  if (!ended()) return
  const refused = Object.keys(settings).find(name => program.output().includes(name))
  if (refused !== undefined) throw new SettingRejected(program.output().trim())
  throw new Error(`the service did not start; output: ${program.output()}`)
}

/**
 * Starts the implementation that one would write without the service, `grpc` or `http`. Answers are over the
 * limit after `limit` hits.
 */
export function startYardstick(
  kind: 'grpc' | 'http',
  redisPort: number,
  limit: number,
): Promise<MeasuredServer> {
  return startContestant('yardstick', `${kind}.ts`, [`${redisPort}`, `${limit}`])
}

/** Answers every gRPC request with the same bytes, after Redis has counted. */
export const startBareDecisions = (redisPort: number) =>
  startContestant('bare decisions', 'bare-decisions.ts', [`${redisPort}`])

/** Starts one of the programs in `yardstick/` on a separate port, which is its first argument. */
export async function startContestant(
  name: string,
  file: string,
  args: readonly string[] = [],
): Promise<MeasuredServer> {
  const [port = 0] = await freePorts(1)
  const script = join(root, 'test/bench/yardstick', file)
  const program = startOnServerCore([script, `${port}`, ...args])
  return untilServing(program, measured(name, program, port, port))
}

/** Resolves with the server when its program has printed `serving`, and otherwise ends the program. */
export async function untilServing(program: Program, server: MeasuredServer): Promise<MeasuredServer> {
  try {
    await program.said('serving')
  } catch (error) {
    await server.end()
    throw error
  }
  return server
}

export function measured(name: string, program: Program, port: number, httpPort: number): MeasuredServer {
  const told = () => [...program.output().matchAll(/^bench-gc ([\d.]+)$/gm)]
  return {
    name,
    pid: program.pid,
    port,
    httpPort,
    async gcMs() {
      const before = told().length
      program.process.kill('SIGUSR2')
      const lines = await waitFor('the time of the garbage collector', () => {
        const now = told()
        return now.length > before && now
      })
      return Number(lines.at(-1)?.[1])
    },
    async end() {
      await program.end('SIGTERM')
    },
  }
}
