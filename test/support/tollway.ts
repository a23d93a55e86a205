import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { fileURLToPath } from 'node:url'
import { readStatusReport } from '../../operator/environments/host/status-file.ts'
import type { StatusReport } from '../../operator/status/status-report.ts'
import { freePorts } from './free-ports.ts'
import { type Program, startProgram } from './program.ts'
import { programs } from './programs.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** An operator with its processes, on separate ports and in temporary folders. */
export interface Tollway {
  readonly program: Program
  /** Starts the command with the same options again, after its end. */
  restart(): Promise<void>
  readonly folder: string
  readonly stateDir: string
  readonly grpcPort: number
  readonly httpPort: number
  readonly feedPort: number
  /** The port of the broker, if there is one. */
  readonly brokerPort: number
  /** Writes a manifest as an editor does. */
  write(file: string, text: string): void
  status(): StatusReport
  /** Resolves when every process enforces the current state of every resource. */
  ready(): Promise<StatusReport>
  /** Calls over HTTP; resolves with the status code. */
  ask(domain: string, key: string, value: string): Promise<number>
}

/** The part of a test's context that registers cleanup functions. */
export interface Cleanup {
  after(end: () => Promise<void>): void
}

/**
 * Starts `tollway run` with these manifests, and ends it with the test. It runs a broker only if `args` ask
 * for one, since most tests need none. Payments, if `args` ask for them, get a database that is already
 * created. `tollway` is the command.
 */
export async function startTollway(
  t: Cleanup,
  manifests: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  tollway: readonly [string, ...string[]] = [process.execPath, programs.tollway],
): Promise<Tollway> {
  const place = temporaryFolder('tollway')
  const folder = join(place, 'manifests')
  const stateDir = join(place, 'state')
  mkdirSync(folder)
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text)
  for (const [file, text] of Object.entries(manifests)) write(file, text)
  const withPayments = args.includes('--payments')
  if (withPayments) {
    const { newPgliteFolder } = await import('./pglite-folder.ts')
    mkdirSync(stateDir, { mode: 0o700 })
    renameSync(await newPgliteFolder(), join(stateDir, 'payments'))
  }
  const [grpcPort = 0, httpPort = 0, feedPort = 0, operatorPort = 0, debugPort = 0, ...forBroker] =
    await freePorts(withPayments ? 10 : 7)
  const [brokerPort = 0, brokerDebugPort = 0, ...forPayments] = forBroker
  const ports = {
    'grpc-port': grpcPort,
    'http-port': httpPort,
    'feed-port': feedPort,
    'operator-port': operatorPort,
    'debug-port': debugPort,
    'broker-replicas': 0,
    'broker-port': brokerPort,
    'broker-debug-port': brokerDebugPort,
    ...(withPayments && {
      'payments-port': forPayments[0],
      'payments-debug-port': forPayments[1],
      'payments-provision-port': forPayments[2],
    }),
  }
  const options = Object.entries(ports).flatMap(([name, number]) => [`--${name}`, `${number}`])
  const [node, ...script] = tollway
  async function start(): Promise<Program> {
    const run = [...script, 'run', '-f', folder, '--state-dir', stateDir, ...options, ...args]
    const started = startProgram(node, run, { cwd: place })
    t.after(async () => {
      await started.end('SIGTERM')
    })
    await started.said('Ctrl-C ends every process', withPayments ? 90_000 : startDeadlineMs)
    return started
  }
  let program = await start()
  const status = () => {
    const report = readStatusReport(stateDir)
    if (report === undefined) throw new Error('there is no status report')
    return report
  }
  return {
    get program() {
      return program
    },
    async restart() {
      program = await start()
    },
    folder,
    stateDir,
    grpcPort,
    httpPort,
    feedPort,
    brokerPort,
    write,
    status,
    ready: () => waitFor('every resource to be ready', () => isReady(status()) && status()),
    async ask(domain, key, value) {
      const body = JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] })
      const response = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })
      await response.arrayBuffer()
      return response.status
    },
  }
}

function isReady({ resources, problems }: StatusReport): boolean {
  const ready = resources.every(({ conditions }) =>
    conditions.some(({ type, status }) => type === 'Ready' && status === 'True'),
  )
  return ready && problems.length === 0
}

/** Returns a manifest with one rule for each key: `user: 3/minute`. */
export function manifest(name: string, domain: string, limits: Readonly<Record<string, string>>): string {
  const rules = Object.entries(limits).map(([key, limit]) => {
    const [count, unit] = limit.split('/')
    return `    - {key: ${key}, rateLimit: {unit: ${unit}, requestsPerUnit: ${count}}}\n`
  })
  return `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: ${name}}
spec:
  domain: ${domain}
  descriptors:
${rules.join('')}`
}
