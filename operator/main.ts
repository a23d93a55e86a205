import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import { nodeOptions } from '@tollway/ratelimit/node-options.ts'
import { createRunner } from './controller/runner.ts'
import { createHostInfrastructure, type HostInfrastructure } from './infrastructure/host/host.ts'
import type { PortWish } from './infrastructure/host/port-probe.ts'
import { type RunningRedis, startRedisFor } from './infrastructure/host/redis.ts'
import { InfrastructureError } from './infrastructure/provider.ts'
import type { Workload } from './ir.ts'
import { unknownKinds } from './reconcilers/known-kinds.ts'
import { createRateLimitConfigs } from './reconcilers/rate-limit-configs.ts'
import { createFileSource } from './sources/files.ts'
import { createComplaintsLog } from './standalone/complaints.ts'
import { openLogFile } from './standalone/log-file.ts'
import { type OperatorConfig, ownPorts } from './standalone/operator-config.ts'
import { createOperatorLog, type OperatorLog } from './standalone/operator-log.ts'
import { createOperatorServer } from './standalone/operator-server.ts'
import { drainMs } from './standalone/rate-limit-env.ts'
import { openRememberedFile, rememberedPath } from './standalone/remembered-file.ts'
import { removeStatusReport, type StatusReport, writeStatusReport } from './standalone/status-report.ts'
import { renderWelcome } from './standalone/welcome.ts'
import { writeAtomically } from './standalone/write-atomically.ts'
import { type RateLimitBackend, rateLimitWorkload } from './translate/rate-limit-workload.ts'
import { rateLimitTypeUrl } from './xds/encode-rate-limit-domain.ts'
import { createRateLimitFeed } from './xds/rate-limit-feed.ts'
import { createFeed, type Feed } from './xds/server.ts'

export interface StandaloneOptions {
  /** The manifests. */
  readonly folder: string
  /** What outlives a restart, and the logs. */
  readonly stateDir: string
  readonly config: OperatorConfig
  /** Shows text to the person who started it. */
  readonly print: (text: string) => void
  /** Aborted when the start is to be given up. */
  readonly signal: AbortSignal
  /** Aborted when the end shall wait for nothing any more. */
  readonly hurry: AbortSignal
}

const loopback = '127.0.0.1'

/** The program of each service. Written out, so that a bundle of the operator can follow it. */
const mainOf: Readonly<Record<Workload['service'], URL>> = {
  ratelimit: new URL('../services/ratelimit/main.ts', import.meta.url),
}

/**
 * Runs the operator on this machine, and resolves when the resources that are there now are in force.
 * Everything below reads what stands above it. Rejects with an `InfrastructureError` when the machine lacks
 * something, and with the signal's reason; nothing that it started is left then.
 */
export async function startStandalone(options: StandaloneOptions): Promise<{ stop(): Promise<void> }> {
  const { folder, stateDir, config, print, signal } = options
  await using started = new AsyncDisposableStack()
  const logFile = join(stateDir, 'tollway.log')
  const log = createOperatorLog({ level: config.logLevel, file: openLogFile(logFile), print })
  const host = openHost(options, log) // locks the state folder; runs processes and tells how they are
  started.defer(() => host.close())
  removeStatusReport(stateDir)
  const source = createFileSource({ folder, clock: systemClock, onWarn: text => log.warn(text) })
  const remembered = openRememberedFile(rememberedPath(stateDir), text => log.warn(text))
  const feed = createFeed({ typeUrls: [rateLimitTypeUrl], ids: randomUUID, clock: systemClock, log })
  const complain = createComplaintsLog(log)
  let report = describe(options, [], host, [])
  const configs = createRateLimitConfigs({
    source,
    remembered,
    feed: createRateLimitFeed(feed), // tells the processes; hears what they make of it
    infrastructure: host,
    clock: systemClock,
    writeStatus(resources) {
      report = describe(options, resources, host, [...source.problems(), ...unknownKinds(source.list())])
      complain(report)
      writeStatusReport(stateDir, report)
    },
  })
  const runner = createRunner({
    reconcile: configs.reconcile,
    onError: (error, retryMs) => {
      log.error('reconciling failed', { error: `${error}`, retryMs: Math.round(retryMs) })
    },
    random: Math.random,
  })
  await host.assertPortsFree(workloadOf(config, { type: 'memory' }), operatorPorts(config))
  await serve(started, config, feed, () => report, log)
  const backend = await openBackend(options, log)
  started.defer(async () => backend.redis?.stop())
  started.defer(() => host.close()) // processes end while their feed and their Redis are still there
  await source.start()
  started.defer(() => source.stop())
  await configs.reconcile()
  started.defer(() => runner.stop())
  for (const part of [source, feed, host]) part.onChange(runner.trigger)
  runner.trigger()
  await host.apply(workloadOf(config, backend.type))
  await firstReady(host, signal, adviceFor(config, logFile))
  const counters = backend.type.type === 'memory' ? 'memory' : 'Redis'
  const now = { ...report, replicas: host.observe('ratelimit') }
  print(renderWelcome({ report: now, stateDir, logFile, counters, inForce: configs.inForce() }))
  const running = started.move()
  return { stop: () => running.disposeAsync() }
}

const portOptions: Readonly<Record<string, string>> = {
  grpc: '--grpc-port',
  http: '--http-port',
  debug: '--debug-port',
  metrics: '--metrics-port',
  feed: '--feed-port',
  operator: '--operator-port',
}

/** Who came by `make run` gives options to that. */
const option = (text: string) => (process.env['MAKELEVEL'] ? `ARGS='${text}'` : text)

const portAdvice = (name: string) => `choose another one with ${option(`${portOptions[name]} PORT`)}`

/** What the operator serves itself. */
function operatorPorts({ feedPort, operatorPort }: OperatorConfig): readonly PortWish[] {
  return [
    { host: loopback, port: feedPort, wantedBy: 'the feed', advice: portAdvice('feed') },
    { host: loopback, port: operatorPort, wantedBy: "the operator's pages", advice: portAdvice('operator') },
  ]
}

function openHost({ stateDir, config, hurry }: StandaloneOptions, log: OperatorLog): HostInfrastructure {
  return createHostInfrastructure({
    stateDir,
    clock: systemClock,
    random: Math.random,
    newUid: randomUUID,
    bindHost: config.host,
    log: log.fromProcess,
    portAdvice,
    hostAdvice: `choose another one with ${option('--host ADDRESS')}`,
    hurry,
    commandFor: service => ({
      command: process.execPath,
      args: [...nodeOptions, fileURLToPath(mainOf[service])],
    }),
    // Code that was compiled before is not stripped of its types again, which takes 20 MiB and half a second.
    env: { NODE_COMPILE_CACHE: join(stateDir, 'compile-cache') },
    ownPortsFor: index => ownPorts(config, index),
  })
}

/** The feed and the operator's own pages, on the loopback address, until `started` is disposed of. */
async function serve(
  started: AsyncDisposableStack,
  { feedPort, operatorPort }: OperatorConfig,
  feed: Feed,
  report: () => StatusReport,
  log: Log,
): Promise<void> {
  const grpc = createGrpcServer({
    methods: feed.methods,
    onDefect: (path, error) => log.error('a call met a defect', { path, error: `${error}` }),
  })
  await grpc.listen({ host: loopback, port: feedPort })
  started.defer(async () => {
    feed.close()
    await grpc.drain(0)
  })
  const http = createOperatorServer(report)
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject).listen(operatorPort, loopback, resolve)
  })
  started.defer(() => {
    http.close()
    http.closeAllConnections()
  })
}

interface Backend {
  readonly type: RateLimitBackend
  readonly redis: RunningRedis | undefined
}

/** More than one process count in a Redis: the one that is named, or one of our own. */
async function openBackend(options: StandaloneOptions, log: OperatorLog): Promise<Backend> {
  const { stateDir, config } = options
  if (config.replicas === 1 && config.redisUrl === '') return { type: { type: 'memory' }, redis: undefined }
  const redis = config.redisUrl === '' ? await startRedis(options, log) : undefined
  const urlFile = join(stateDir, 'redis-url')
  writeAtomically(urlFile, redis?.url ?? config.redisUrl)
  return { type: { type: 'redis', urlFile }, redis }
}

async function startRedis(
  { stateDir, config: { replicas }, hurry }: StandaloneOptions,
  log: OperatorLog,
): Promise<RunningRedis> {
  try {
    return await startRedisFor({
      stateDir,
      clock: systemClock,
      random: Math.random,
      newUid: randomUUID,
      hurry,
      log: log.fromProcess,
    })
  } catch (error) {
    if (!(error instanceof InfrastructureError)) throw error
    const why = `${replicas} processes share their counters in Redis`
    throw new InfrastructureError(`${error.message}; ${why}: name one with --redis-url, or run one process`)
  }
}

/** After the drain a process closes its feed and its counters, and is gone. */
const closeMs = 2_000

function workloadOf(config: OperatorConfig, backend: RateLimitBackend) {
  // Callers on the same machine notice at once, and people see in the status why calls fail.
  const own = { DRAIN_DELAY: '200ms', KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' }
  const metrics = config.metrics ? { USE_PULLSTATS: 'true', DISABLE_STATS: 'false' } : {}
  const env = { ...own, ...metrics, ...config.rateLimitEnv }
  return rateLimitWorkload({
    replicas: config.replicas,
    backend,
    grpcPort: config.grpcPort,
    httpPort: config.httpPort,
    feedAddress: `${loopback}:${config.feedPort}`,
    logLevel: config.logLevel,
    stopGraceMs: drainMs(env) + closeMs,
    env,
  })
}

const firstReadyMs = 30_000

function adviceFor({ redisUrl }: OperatorConfig, logFile: string): string {
  const redis = redisUrl === '' ? '' : 'is the Redis that was named reachable? '
  return `${redis}${logFile} has what they said`
}

/** Resolves when every process takes calls; what still keeps one from it after a while is the error. */
function firstReady(host: HostInfrastructure, signal: AbortSignal, advice: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    const reasons = host.observe('ratelimit').map(({ name, reason }) => `${name}: ${reason || 'ready'}`)
    const late = `no call can be taken after ${firstReadyMs / 1000} s: ${reasons.join(', ')}`
    reject(new InfrastructureError(`${late}; ${advice}`))
  }, firstReadyMs)
  const giveUp = () => reject(signal.reason)
  const look = () => {
    if (signal.aborted) giveUp()
    const replicas = host.observe('ratelimit')
    if (replicas.length > 0 && replicas.every(({ ready }) => ready)) resolve()
  }
  signal.addEventListener('abort', giveUp)
  host.onChange(look)
  look()
  return promise.finally(() => clearTimeout(timer))
}

function describe(
  { folder, config }: StandaloneOptions,
  resources: StatusReport['resources'],
  host: HostInfrastructure,
  problems: StatusReport['problems'],
): StatusReport {
  const { host: address, grpcPort, httpPort, feedPort, operatorPort } = config
  const shown = address.includes(':') ? `[${address}]` : address
  return {
    pid: process.pid,
    updatedAt: new Date(systemClock.nowMs()).toISOString(),
    folder,
    addresses: {
      grpc: `${shown}:${grpcPort}`,
      http: `http://${shown}:${httpPort}`,
      feed: `${loopback}:${feedPort}`,
      operator: `http://${loopback}:${operatorPort}`,
    },
    resources,
    replicas: host.observe('ratelimit'),
    problems,
  }
}
