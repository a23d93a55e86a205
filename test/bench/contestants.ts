import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { nodeOptions } from '@tollway/ratelimit/node-options.ts'
import { missingReference, referencePath } from '../differential/start-reference.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  fromCache,
  type MeasuredServer,
  measured,
  onServerCore,
  startBareDecisions,
  startOurs,
  startYardstick,
} from './servers.ts'

/** The conditions under which a contestant is started. */
export interface Conditions {
  readonly protocol: 'grpc' | 'json'
  /** The configuration, as YAML. */
  readonly rules: string
  /** The only limit of a contestant without rules. */
  readonly limit: number
  readonly redisPort: number
}

/** A program that the service is compared with. */
export interface Contestant {
  readonly name: string
  /** Returns the reason why it cannot run here; false when it can. */
  readonly missing?: () => string | false
  start(conditions: Conditions): Promise<MeasuredServer>
}

export const yardstick: Contestant = {
  name: 'yardstick',
  start: ({ protocol, redisPort, limit }) =>
    startYardstick(protocol === 'json' ? 'http' : 'grpc', redisPort, limit),
}

/** The cost of a decision with bare sockets of Node. */
export const bareDecisions: Contestant = {
  name: 'bare decisions',
  start: ({ redisPort }) => startBareDecisions(redisPort),
}

/** envoyproxy/ratelimit, started by its main with its defaults. */
export const reference: Contestant = {
  name: 'reference',
  missing: missingReference,
  start: conditions => startReferenceServer(conditions),
}

/** The service with other settings. */
export function oursWith(name: string, settings: Readonly<Record<string, string>>): Contestant {
  return { name, start: ({ rules, redisPort }) => startOurs({ name, rules, redisPort, settings }) }
}

/** @param settings in addition to those that every contestant has */
export async function startReferenceServer(
  { rules, redisPort }: Pick<Conditions, 'rules' | 'redisPort'>,
  settings: Readonly<Record<string, string>> = {},
): Promise<MeasuredServer> {
  const place = temporaryFolder('bench-reference')
  mkdirSync(join(place, 'config'))
  writeFileSync(join(place, 'config/bench.yaml'), rules)
  const [port = 0, httpPort = 0, debugPort = 0] = await freePorts(3)
  const program = startProgram(...onServerCore(referencePath(), []), {
    env: {
      PATH: process.env['PATH'],
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: `${port}`,
      HOST: '127.0.0.1',
      PORT: `${httpPort}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      RUNTIME_ROOT: place,
      RUNTIME_WATCH_ROOT: 'false',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redisPort}`,
      USE_STATSD: 'false',
      LOG_LEVEL: 'warn',
      ...settings,
    },
  })
  const server = { ...measured('reference', program, port, httpPort), gcMs: async () => undefined }
  try {
    await waitFor('the reference to be healthy', async () => {
      if (program.process.exitCode !== null) throw new Error(`the reference ended: ${program.output()}`)
      return (await fetch(`http://127.0.0.1:${httpPort}/healthcheck`)).ok
    })
  } catch (error) {
    await server.end()
    throw error
  }
  return server
}

/** Starts an idle Node process with the service's options: the memory that any process of Node takes. */
export async function startBareNode(): Promise<MeasuredServer> {
  const program = startProgram(
    ...onServerCore(process.execPath, [
      ...nodeOptions,
      '-e',
      'process.stdout.write("ready"); setInterval(() => {}, 1e9)',
    ]),
    { env: { ...fromCache, ...nodeEnvironment } },
  )
  await program.said('ready')
  return measured('bare Node', program, 0, 0)
}
