import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeEnvironment, nodeOptions as ownNodeOptions } from '@tollway/ratelimit/node-options.ts'
import { freePorts } from '../support/free-ports.ts'
import { type Program, startProgram } from '../support/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** A server under test, alone on its core. */
export interface MeasuredServer {
  readonly name: string
  readonly pid: number
  /** Of gRPC; of HTTP for the yardstick that speaks only that. */
  readonly port: number
  /** Of `/json`; of a broker, of its pages. */
  readonly httpPort: number
  /** How many milliseconds its garbage collector has stopped it since its start; undefined if unknown. */
  gcMs(): Promise<number | undefined>
  end(): Promise<void>
}

/** The service does not start with a setting that the benchmark is about. */
export class SettingRefused extends Error {}

export const serverCore = '0'
export const otherCore = '1'

/** The load, Redis and whatever else is started from here share the other core from now on. */
export function moveToOtherCore(): void {
  execFileSync('taskset', ['-a', '-p', '-c', otherCore, String(process.pid)])
}

/** The command and the arguments that run the program alone on the server's core. */
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
  /** More settings of the service. */
  readonly settings?: Readonly<Record<string, string>>
  /** Options of Node. */
  readonly nodeOptions?: readonly string[]
}

const main = join(root, 'services/ratelimit/main.ts')
/**
 * An image has the service without types; here its code comes from a cache, so that neither has the machinery in
 * memory that strips them, which takes 25 MiB.
 */
export const fromCache = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: join(root, 'out/compile-cache') }
const cachesFilled = new Map<string, Promise<unknown>>()

/** A start that ends at once, since it has no such port, but has loaded all code before. */
export function fillCache(args: readonly string[], port: 'PORT' | 'GRPC_PORT'): Promise<unknown> {
  const key = args.join(' ')
  const filled = cachesFilled.get(key) ?? startOnServerCore(args, { ...fromCache, [port]: 'none' }).exited()
  cachesFilled.set(key, filled)
  return filled
}

/**
 * Starts the service as it is delivered: every feature on, counters in Redis unless the settings say else.
 *
 * @throws SettingRefused when it ends and names one of the settings.
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
  if (refused !== undefined) throw new SettingRefused(program.output().trim())
  throw new Error(`the service did not start; it said: ${program.output()}`)
}

/** `grpc` or `http`: what one would build without us. Answers are over the limit after `limit` hits. */
export function startYardstick(
  kind: 'grpc' | 'http',
  redisPort: number,
  limit: number,
): Promise<MeasuredServer> {
  return startContestant('yardstick', `${kind}.ts`, [`${redisPort}`, `${limit}`])
}

/** Answers every read with the same bytes. */
export const startBareAnswers = () => startContestant('bare answers', 'bare-answers.ts')

/** Answers every request of gRPC with the same bytes, after Redis has counted. */
export const startBareDecisions = (redisPort: number) =>
  startContestant('bare decisions', 'bare-decisions.ts', [`${redisPort}`])

/** One of the programs in `yardstick/`, on a port of its own, which comes before its other arguments. */
export async function startContestant(
  name: string,
  file: string,
  args: readonly string[] = [],
): Promise<MeasuredServer> {
  const [port = 0] = await freePorts(1)
  const script = join(root, 'test/bench/yardstick', file)
  const program = startOnServerCore([script, `${port}`, ...args])
  await program.said('serving')
  return measured(name, program, port, port)
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
      const lines = await waitFor('the garbage collector to be told of', () => {
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
