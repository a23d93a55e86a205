import { randomUUID } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import { BackendWatch } from '@tollway/chassis/health/watch-backend.ts'
import { reportBackend, reportHealth } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import { openTracing, type Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import { assertAddressesFree } from '@tollway/grpc/server/assert-addresses-free.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { HealthTable } from '@tollway/grpc/server/health.ts'
import { grpcAddress } from '@tollway/grpc/server/server-settings.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import { Budgets } from './budgets.ts'
import { type Configuration, type ConfigurationOptions, createConfiguration } from './config/configuration.ts'
import { openFeed } from './config/open-feed.ts'
import { BackendHealth, ErrorWatch, probeBackend } from './counters/backend-health.ts'
import type { Counters } from './counters/counters.ts'
import { MemoryBucketShares } from './counters/memory-bucket-shares.ts'
import { createRateLimitHealth } from './health.ts'
import type { ObserverSlot } from './limiter/decision.ts'
import { findObstacle } from './limiter/find-obstacle.ts'
import type { Limiter } from './limiter/limiter.ts'
import { openLimiter } from './limiter/open-limiter.ts'
import { openBackend } from './open-backend.ts'
import { PodBuckets } from './quota/pod-buckets.ts'
import { QuotaBuckets } from './quota/quota-buckets.ts'
import { QuotaCalls } from './quota/quota-calls.ts'
import { describeRules } from './rules/describe.ts'
import { budgetsMethods } from './servers/budgets-methods.ts'
import { countHealthChecks, rateLimitMethods } from './servers/grpc-methods.ts'
import { openGrpcTls } from './servers/grpc-tls.ts'
import { createHttpServer } from './servers/http-server.ts'
import { portsBesidesGrpc } from './servers/ports-besides-grpc.ts'
import { bytesOfBucket, quotaMethods } from './servers/quota-methods.ts'
import type { Settings } from './settings.ts'
import { countingSpans } from './spans.ts'
import { waitUntilReady } from './startup.ts'
import { createLimitStats } from './stats/limit-stats.ts'
import { createStats, type Stats } from './stats/stats.ts'
import type { ReportsParts } from './telemetry/open-reports.ts'
import { warmUp } from './warm-up.ts'
import { openStatsEndpoints } from './workers/stats-endpoints.ts'
import type { WorkerLink } from './workers/worker-link.ts'

/** The service's name in grpc.health.v1, as in envoyproxy/ratelimit. */
const healthName = 'ratelimit'

/** The log says so when the backend takes longer to answer for the first time. */
const backendWarningMs = 1000

/** How often reservations that have expired are ended. */
const sweepIntervalMs = 500

/** When the process stops, traces that could not be sent in this time are dropped. */
const traceFlushTimeoutMs = 3_000

interface Service {
  /** Unhealthy at once; after DRAIN_DELAY no more calls are accepted, and running ones end. */
  stop(): Promise<void>
}

/**
 * Starts the whole service and resolves when it accepts calls. Rejects at once when a port or a file of the
 * settings cannot be used. The ports for statistics and probes open at once, the ports for calls when
 * `waitUntilReady` resolves.
 *
 * The parts are created in this order, each from earlier ones: statistics, counters, configuration, limiter,
 * feed, servers. A worker publishes its statistics and rules through its supervisor, and shows callers the
 * health of all workers together.
 */
export async function startService(settings: Settings, log: Log, worker?: WorkerLink): Promise<Service> {
  if (worker === undefined) await assertAddressesFree(settings, portsBesidesGrpc(settings))
  const stats = createStats()
  const tls = openGrpcTls(settings, stats, log)
  const tracing = await openTracing(settings, log)
  const decisions = openDecisions(settings, stats, log)
  const { counters, configuration, backendHealth, slot, limiter, budgets, pods, quota, quotaCalls, health } =
    decisions
  const rules = () => describeRules(configuration.rules())
  let backend = unwatched
  const backendProblem = () => backend.problem
  if (settings.backendType !== 'memory') {
    stats.gauge('ratelimit.backend.failing', () => Number(backendProblem() !== ''))
  }
  const statsEndpoints =
    worker?.attach({ stats, rules }) ??
    (await openStatsEndpoints(settings, {
      stats,
      rules,
      backendProblem,
      log,
      problem: () => health.problem,
      acceptProblem: () => health.acceptProblem,
    }))
  const { feed, connection } = await openFeed(settings, configuration, stats, log)
  feed.start()
  // A histogram outside the statistics, because envoyproxy/ratelimit has none for calls of `/json`.
  const jsonTimes = new Histogram()
  const reportParts = { limiter, slot, quota, counters, configuration, stats, jsonTimes, backendProblem, log }
  const reports = await startReports(settings, connection, reportParts)
  const warm = warmUp(settings)
  await waitUntilReady({
    ...settings,
    configuration,
    counters: backendHealth,
    log,
    onWait: reason => (worker ? worker.reportWait(reason) : reportHealth(false, reason)),
  })
  log.debug('answer warm-up calls', { calls: await warm })
  const servers = await openServers(settings, {
    limiter,
    budgets,
    quota,
    stats,
    jsonTimes,
    tracing,
    tls,
    health,
    worker,
    log,
  })
  backend = watchCounters(settings, counters)
  pods.start()
  const sweeping = setInterval(() => void budgets.sweep(), sweepIntervalMs)
  logBackend(counters, backendHealth, health, log)
  return {
    async stop() {
      health.terminate()
      backend.stop()
      clearInterval(sweeping)
      await new Promise(resolve => setTimeout(resolve, settings.drainDelayMs))
      health.close()
      quotaCalls.close()
      // The streams of quotas end first, and their proxies are at another process before all calls have ended.
      await Promise.all([servers.drain(settings.drainTimeoutMs), pods.close()])
      await limiter.returnLeases()
      await reports?.stop()
      await feed.stop()
      await counters.close()
      await statsEndpoints.stop()
      await tracing?.stop(traceFlushTimeoutMs)
    },
  }
}

/** Creates the parts that decide calls, without opening a port. */
function openDecisions(settings: Settings, stats: Stats, log: Log) {
  const limitStats = createLimitStats(stats, what =>
    log.warn('add statistic failed', {
      what,
      reason: 'too many names; more are counted together as "overflow"',
    }),
  )
  const counters = openBackend(settings, stats, log)
  const configuration = openConfiguration(settings, {
    stats,
    limitStats,
    log,
    findObstacle: features => findObstacle(settings, counters, features),
  })
  const errors = openErrorWatch(log)
  const backendHealth = openBackendHealth(settings, counters, errors)
  const slot: ObserverSlot = { observer: undefined }
  const { cacheKeyPrefix, shadowMode, redisPerSecond: hasPerSecondBackend } = settings
  const pods = new PodBuckets({
    shares: counters.openBucketShares?.(cacheKeyPrefix) ?? new MemoryBucketShares(systemClock),
    pod: randomUUID(),
    clock: systemClock,
    onFirst: () => openShareStats(pods, stats),
    // Streams free their memory when they end, and others can open buckets beside those that they leave.
    maxBuckets: Math.ceil((2 * settings.quotaMemoryBytes) / bytesOfBucket),
    onChange(bucket) {
      quota.revise(bucket)
      quotaCalls.revise(bucket)
    },
  })
  const quota = new QuotaBuckets({ rules: configuration.rules, pods, clock: systemClock, shadowMode })
  const quotaCalls = new QuotaCalls({ pods, clock: systemClock })
  const limiter = openLimiter(settings, {
    admitShared: (...call) => quotaCalls.admit(...call),
    observation: slot,
    rules: configuration.rules,
    counters,
    errors,
    stats,
    limitStats,
    clock: systemClock,
    random: Math.random,
    startCounting: countingSpans[settings.backendType],
  })
  const budgets = new Budgets({
    rules: configuration.rules,
    reservations: counters.reservations,
    clock: systemClock,
    cacheKeyPrefix,
    hasPerSecondBackend,
    shadowMode,
    nearLimitRatio: settings.nearLimitRatio,
    onDecrease: keys => limiter.announce(keys),
  })
  const withConfig = settings.healthyWithConfig
  const health = createRateLimitHealth({ counters: backendHealth, configuration, withConfig })
  return { counters, configuration, backendHealth, slot, limiter, budgets, pods, quota, quotaCalls, health }
}

/** The statistics exist from the first bucket on, whether proxies or calls have it. */
function openShareStats(pods: PodBuckets, stats: Stats): void {
  stats.gauge('ratelimit.quota.learning', () => Number(pods.isLearning))
  stats.follower('ratelimit.quota.renewals').follow(pods.renewals)
  stats.follower('ratelimit.quota.failed_renewals').follow(pods.failedRenewals)
}

/** Starts the reports if there is a feed. The generated messages are imported only then. */
async function startReports(
  settings: Settings,
  connection: FeedConnection | undefined,
  parts: Omit<ReportsParts, 'connection'>,
): Promise<ReconnectingCall | undefined> {
  if (connection === undefined || !settings.reportDecisions) return undefined
  const { openReports } = await import('./telemetry/open-reports.ts')
  const reports = openReports(settings, { ...parts, connection })
  reports.start()
  return reports
}

/** Logs when the backend rejects every call: its connections stay open, so no other part reports it. */
function openErrorWatch(log: Log): ErrorWatch {
  const errors = new ErrorWatch(systemClock)
  errors.onChange(() => {
    const { problem } = errors
    if (problem === '') log.warn('resume counting hits')
    else log.warn('count hits failed', { reason: `the backend answers every call with an error: ${problem}` })
  })
  return errors
}

function openConfiguration(
  { mergeDomainConfigs, configType }: Settings,
  parts: Pick<ConfigurationOptions, 'stats' | 'limitStats' | 'log' | 'findObstacle'>,
): Configuration {
  const spelling = configType === 'FILE' ? 'snake' : 'camel'
  return createConfiguration({ ...parts, mergeDomainConfigs, spelling })
}

interface ServerParts {
  readonly limiter: Limiter
  readonly budgets: Budgets
  readonly quota: QuotaBuckets
  readonly stats: Stats
  readonly jsonTimes: Histogram
  readonly tracing: Tracing | undefined
  readonly tls: ServerTls | undefined
  readonly health: ServiceHealth
  readonly worker: WorkerLink | undefined
  readonly log: Log
}

/** Opens the ports for calls. From then on the health of the process is reported. */
async function openServers(
  settings: Settings,
  { limiter, budgets, quota, stats, jsonTimes, tracing, tls, health, worker, log }: ServerParts,
) {
  const healthy = () => health.healthy && (worker?.serviceHealthy() ?? true)
  const onDefect = (path: string, error: unknown) =>
    log.error('answer call failed', { path, error: (error as Error).stack ?? String(error) })
  const table = new HealthTable()
  const memory = new MemoryBudget(settings.requestMemoryBytes)
  const ending = new AbortController()
  const grpc = createGrpcServer({
    memory,
    methods: [
      ...rateLimitMethods({ limiter, stats, clock: systemClock, tracing }),
      ...budgetsMethods(budgets, stats),
      ...quotaMethods({
        buckets: quota,
        stats,
        clock: systemClock,
        ending: ending.signal,
        memoryBytes: settings.quotaMemoryBytes,
      }),
    ],
    health: table,
    onHealthCheck: countHealthChecks(stats),
    onDefect,
    limits: {
      maxConnectionAgeMs: settings.grpcMaxConnectionAgeMs,
      maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGraceMs,
    },
  })
  const http = createHttpServer({
    memory,
    limiter,
    clock: systemClock,
    times: jsonTimes,
    tracing,
    healthy,
    draining: () => health.terminating,
    onDefect,
    onRejected: reason => log.debug('reject call of /json', { reason }),
  })
  const updateTable = () => table.set(healthName, healthy())
  table.set('', true)
  updateTable()
  await grpc.listen({ ...grpcAddress(settings), tls })
  await http.listen({ host: settings.host, port: settings.port, reusePort: settings.reusePort })
  health.serve()
  health.onChange(ownHealth => {
    updateTable()
    reportHealth(ownHealth, health.problem)
  })
  worker?.onServiceHealth(updateTable)
  log.info('start service', { grpc: settings.grpcUnixSocket || settings.grpcPort, http: settings.port })
  return {
    drain(graceMs: number) {
      ending.abort()
      return Promise.all([grpc.drain(graceMs), http.drain(graceMs)])
    },
  }
}

function openBackendHealth(settings: Settings, counters: Counters, errors: ErrorWatch) {
  const { cacheKeyPrefix, redisHealthCheckActiveConnection: checkActiveConnection } = settings
  return new BackendHealth(counters, errors, checkActiveConnection, cacheKeyPrefix)
}

/**
 * Stands for the watch until the backend has answered for the first time: the process is not ready until
 * then, so no failure is reported. Also used for counters in memory, which cannot fail.
 */
const unwatched: Pick<BackendWatch, 'problem' | 'stop'> = { problem: '', stop() {} }

/** Reports failures to the parent process. */
function watchCounters(
  { backendType, cacheKeyPrefix }: Settings,
  counters: Counters,
): Pick<BackendWatch, 'problem' | 'stop'> {
  if (backendType === 'memory') return unwatched
  const watch = new BackendWatch({
    probe: () => probeBackend(counters, cacheKeyPrefix),
    onChange: reportBackend,
  })
  counters.onHealth(watch.probeNow)
  return watch
}

/** Logs when the backend is reached or lost, because callers see only errors. */
function logBackend(
  counters: Counters,
  backendHealth: Pick<Counters, 'healthy' | 'problem'>,
  health: ServiceHealth,
  log: Log,
): void {
  counters.onHealth(healthy => {
    if (healthy) log.info('reach backend')
    // At a shutdown, the process itself closes the connections to the backend.
    else if (!health.terminating) log.warn('reach backend failed', { reason: counters.problem })
  })
  const patience = setTimeout(() => {
    if (backendHealth.healthy) return
    log.warn('wait for backend', { reason: backendHealth.problem })
  }, backendWarningMs)
  patience.unref()
}
