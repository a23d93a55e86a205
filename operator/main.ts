import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createLog, type Log } from '@tollway/chassis/log.ts'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import { createRunner } from './controller/runner.ts'
import { createHostInfrastructure, type HostInfrastructure } from './infrastructure/host/host.ts'
import type { LogLine } from './infrastructure/host/lines.ts'
import { assertPortsFree } from './infrastructure/host/port-probe.ts'
import { type RunningRedis, startRedisFor } from './infrastructure/host/redis.ts'
import { InfrastructureError } from './infrastructure/provider.ts'
import { createRateLimitConfigs } from './reconcilers/rate-limit-configs.ts'
import { createFileSource } from './sources/files.ts'
import { openLogFile } from './standalone/log-file.ts'
import type { OperatorConfig } from './standalone/operator-config.ts'
import { createOperatorServer } from './standalone/operator-server.ts'
import { openRememberedFile } from './standalone/remembered-file.ts'
import { type StatusReport, writeStatusReport } from './standalone/status-report.ts'
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
}

const loopback = '127.0.0.1'

/**
 * Runs the operator on this machine, and resolves when the resources that are there now are in force.
 * Everything below reads what stands above it. Rejects with an `InfrastructureError` when the machine lacks
 * something.
 */
export async function startStandalone(options: StandaloneOptions): Promise<{ stop(): Promise<void> }> {
  const { folder, stateDir, config } = options
  await using started = new AsyncDisposableStack()
  const log = openLog(options)
  const host = openHost(options, log) // locks the state folder; runs processes and tells how they are
  started.defer(() => host.close())
  const source = createFileSource({ folder, clock: systemClock, onWarn: text => log.warn(text) })
  const remembered = openRememberedFile(join(stateDir, 'remembered.json'), text => log.warn(text))
  const feed = openFeed(log) // tells the processes; hears what they make of it
  let report: StatusReport | undefined
  const configs = createRateLimitConfigs({
    source,
    remembered,
    feed: createRateLimitFeed(feed),
    infrastructure: host,
    clock: systemClock,
    writeStatus(resources) {
      report = describe(options, resources, host, source.problems())
      writeStatusReport(stateDir, report)
    },
  })
  const runner = createRunner({
    reconcile: configs.reconcile,
    onError: (error, retryMs) => log.error('reconciling failed', { error: `${error}`, retryMs }),
    random: Math.random,
  })
  started.defer(await serve(config, feed, () => report, log))
  const backend = await openBackend(options, log)
  started.defer(async () => backend.redis?.stop())
  started.defer(() => host.close()) // processes end while their feed and their Redis are still there
  await source.start()
  started.defer(() => source.stop())
  started.defer(() => runner.stop())
  for (const part of [source, feed, host]) part.onChange(() => runner.trigger())
  await configs.reconcile()
  await host.apply(workloadOf(config, backend.type))
  await firstReady(host)
  options.print(
    renderWelcome({
      report: describe(options, [], host, []),
      stateDir,
      logFile: logPath(stateDir),
      counters: backend.type.type === 'memory' ? 'memory' : 'Redis',
      inForce: configs.inForce(),
    }),
  )
  const running = started.move()
  return { stop: () => running.disposeAsync() }
}

/** All lines go to the log file; people see those of warnings and errors. */
function openLog({ stateDir, config, print }: StandaloneOptions): Log & { fromReplica(line: LogLine): void } {
  const file = openLogFile(logPath(stateDir))
  const write = (line: string) => {
    file.write(line)
    if (!/^\S+ \S+ level=(debug|info) /.test(line)) print(line)
  }
  const own = createLog({
    level: config.logLevel,
    format: 'text',
    write: line => write(`operator    ${line}`),
  })
  return { ...own, fromReplica: ({ source, text }) => write(`${source.padEnd(11)} ${text}\n`) }
}

const logPath = (stateDir: string) => join(stateDir, 'tollway.log')

const portOptions: Readonly<Record<string, string>> = {
  grpc: '--grpc-port',
  http: '--http-port',
  debug: '--debug-port',
  metrics: '--metrics-port',
  feed: '--feed-port',
  operator: '--operator-port',
}

const portAdvice = (name: string) => `choose another one with ${portOptions[name]}`

function openHost(
  { stateDir, config }: StandaloneOptions,
  log: ReturnType<typeof openLog>,
): HostInfrastructure {
  const { debugPort, metricsPort } = config
  return createHostInfrastructure({
    stateDir,
    clock: systemClock,
    random: Math.random,
    newUid: randomUUID,
    bindHost: config.host,
    log: log.fromReplica,
    portAdvice,
    commandFor: service => ({
      command: process.execPath,
      args: [fileURLToPath(new URL(`../services/${service}/main.ts`, import.meta.url))],
    }),
    ownPortsFor: index =>
      index === 0
        ? { debug: debugPort, metrics: metricsPort }
        : { debug: debugPort + 30 + index, metrics: metricsPort + 10 + index },
  })
}

function openFeed(log: Log): Feed {
  return createFeed({ typeUrls: [rateLimitTypeUrl], ids: randomUUID, clock: systemClock, log })
}

/** The feed and the operator's own pages, on the loopback address; answers how to end them. */
async function serve(
  { feedPort, operatorPort }: OperatorConfig,
  feed: Feed,
  report: () => StatusReport | undefined,
  log: Log,
): Promise<() => Promise<void>> {
  const wish = (name: string, port: number) => ({
    host: loopback,
    port,
    wantedBy: `${name} of the operator`,
    advice: portAdvice(name),
  })
  await assertPortsFree([wish('feed', feedPort), wish('operator', operatorPort)])
  const grpc = createGrpcServer({
    methods: feed.methods,
    onDefect: (path, error) => log.error('a call met a defect', { path, error: `${error}` }),
  })
  await grpc.listen({ host: loopback, port: feedPort })
  const http = createOperatorServer(report)
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject).listen(operatorPort, loopback, resolve)
  })
  return async () => {
    http.close()
    http.closeAllConnections()
    feed.close()
    await grpc.drain(0)
  }
}

/** More than one process count in a Redis: the one that is named, or one of our own. */
async function openBackend(
  { stateDir, config }: StandaloneOptions,
  log: ReturnType<typeof openLog>,
): Promise<Backend> {
  if (config.replicas === 1 && config.redisUrl === '') return { type: { type: 'memory' }, redis: undefined }
  const redis = config.redisUrl === '' ? await startRedis(stateDir, config.replicas, log) : undefined
  const urlFile = join(stateDir, 'redis-url')
  writeAtomically(urlFile, redis?.url ?? config.redisUrl)
  return { type: { type: 'redis', urlFile }, redis }
}

interface Backend {
  readonly type: RateLimitBackend
  readonly redis: RunningRedis | undefined
}

async function startRedis(
  stateDir: string,
  replicas: number,
  log: ReturnType<typeof openLog>,
): Promise<RunningRedis> {
  try {
    return await startRedisFor({
      stateDir,
      clock: systemClock,
      random: Math.random,
      newUid: randomUUID,
      log: log.fromReplica,
    })
  } catch (error) {
    if (!(error instanceof InfrastructureError)) throw error
    const why = `${replicas} processes share their counters in Redis`
    throw new InfrastructureError(`${error.message}; ${why}: name one with --redis-url, or run one process`)
  }
}

function workloadOf(config: OperatorConfig, backend: RateLimitBackend) {
  return rateLimitWorkload({
    replicas: config.replicas,
    backend,
    grpcPort: config.grpcPort,
    httpPort: config.httpPort,
    feedAddress: `${loopback}:${config.feedPort}`,
    logLevel: config.logLevel,
    // Callers on the same machine notice at once.
    env: { DRAIN_DELAY: '200ms', ...config.rateLimitEnv },
  })
}

const firstReadyMs = 30_000

/** Resolves when every process takes calls; what still keeps one from it after a while is the error. */
function firstReady(host: HostInfrastructure): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      const reasons = host.observe('ratelimit').map(({ name, reason }) => `${name}: ${reason || 'ready'}`)
      reject(
        new InfrastructureError(`no call can be taken after ${firstReadyMs / 1000} s: ${reasons.join(', ')}`),
      )
    }, firstReadyMs)
    const look = () => {
      const replicas = host.observe('ratelimit')
      if (replicas.length === 0 || replicas.some(({ ready }) => !ready)) return
      clearTimeout(late)
      resolve()
    }
    host.onChange(look)
    look()
  })
}

function describe(
  { folder, config }: StandaloneOptions,
  resources: StatusReport['resources'],
  host: HostInfrastructure,
  problems: StatusReport['problems'],
): StatusReport {
  return {
    pid: process.pid,
    updatedAt: new Date(systemClock.nowMs()).toISOString(),
    folder,
    addresses: {
      grpc: `${config.host}:${config.grpcPort}`,
      http: `http://${config.host}:${config.httpPort}`,
      feed: `${loopback}:${config.feedPort}`,
      operator: `http://${loopback}:${config.operatorPort}`,
    },
    resources,
    replicas: host.observe('ratelimit'),
    problems,
  }
}
