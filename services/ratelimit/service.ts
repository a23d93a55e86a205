import { systemClock } from '@tollway/chassis/clock.ts'
import { reportHealth } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { openTracing } from '@tollway/chassis/open-tracing.ts'
import { assertAddressesFree } from '@tollway/grpc/assert-addresses-free.ts'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import { createHealthTable } from '@tollway/grpc/health.ts'
import { grpcAddress } from '@tollway/grpc/server-settings.ts'
import { createBackendHealth } from './counters/backend-health.ts'
import type { Counters } from './counters/counters.ts'
import { createErrorWatch, type ErrorWatch } from './counters/error-watch.ts'
import { openMemcached } from './counters/memcached/open-memcached.ts'
import { openCounters } from './counters/open-counters.ts'
import { type Configuration, type ConfigurationOptions, createConfiguration } from './feeds/configuration.ts'
import { openFeed } from './feeds/open-feed.ts'
import { createHealth, type Health } from './health.ts'
import { openLimiter } from './limiter/open-limiter.ts'
import { describeRules } from './rules/describe.ts'
import { rateLimitMethods } from './servers/grpc-methods.ts'
import { openGrpcTls } from './servers/grpc-tls.ts'
import { createHttpServer } from './servers/http-server.ts'
import { portsBesidesGrpc } from './servers/ports-besides-grpc.ts'
import type { Settings } from './settings.ts'
import { createLimitStats } from './stats/limit-stats.ts'
import { createStats, type Stats } from './stats/stats.ts'
import { countingSpans } from './tracing/spans.ts'
import { openOutlets } from './workers/outlets.ts'
import type { WorkerLink } from './workers/worker-link.ts'

/** The name under which grpc.health.v1 tells of the service, as the reference does. */
const healthName = 'ratelimit'

/** A backend that takes longer to answer for the first time is told of. */
const backendPatienceMs = 1000

/** The last traces are given up after so long; nobody waits for them but the end of the process. */
const traceFlushTimeoutMs = 3_000

export interface Service {
  /** Unhealthy at once; after DRAIN_DELAY no more calls are taken, and running ones end. */
  stop(): Promise<void>
}

/**
 * Starts the whole service and resolves when it takes calls. What cannot be had is told first, before anything
 * is waited for. Each part is made from the ones above it: statistics, configuration, counters, limiter, servers,
 * feed. A worker shows its statistics and rules through its supervisor, and is healthy to callers only while all
 * workers together are.
 */
export async function startService(settings: Settings, log: Log, worker?: WorkerLink): Promise<Service> {
  if (worker === undefined) await assertAddressesFree(settings, portsBesidesGrpc(settings))
  const stats = createStats()
  const tls = openGrpcTls(settings, stats, log)
  const tracing = await openTracing(settings, log)
  const limitStats = createLimitStats(stats, what =>
    log.warn(`too many names of statistics: further ${what} are counted together, as "overflow"`),
  )
  const configuration = openConfiguration(settings, { stats, limitStats, log })
  const counters = openBackend(settings, stats, log)
  const errors = openErrorWatch(log)
  const backendHealth = openBackendHealth(settings, counters, errors)
  const limiter = openLimiter(settings, {
    rules: configuration.rules,
    counters,
    errors,
    stats,
    limitStats,
    clock: systemClock,
    random: Math.random,
    startCounting: countingSpans[settings.backendType],
  })
  const health = createHealth({
    counters: backendHealth,
    configuration,
    withConfig: settings.healthyWithConfig,
  })
  const healthy = () => health.healthy() && (worker?.wholeHealthy() ?? true)
  const onDefect = (path: string, error: unknown) =>
    log.error('a call met a defect', { path, error: (error as Error).stack ?? String(error) })

  const rules = () => describeRules(configuration.rules())
  const outlets = worker?.attach({ stats, rules }) ?? (await openOutlets(settings, { stats, rules, log }))
  const feed = await openFeed(settings, configuration, stats, log)
  const loaded = firstLoad(configuration)
  feed.start()
  if (!settings.forceStart) await loaded

  const table = createHealthTable()
  const grpc = createGrpcServer({
    methods: rateLimitMethods({ limiter, stats, clock: systemClock, tracing }),
    health: table,
    onDefect,
    limits: {
      maxConnectionAgeMs: settings.grpcMaxConnectionAgeMs,
      maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGraceMs,
    },
  })
  const http = createHttpServer({
    limiter,
    tracing,
    healthy,
    draining: health.terminating,
    onDefect,
    onRefused: problem => log.debug('a call of /json was refused', { problem }),
  })
  await grpc.listen({ ...grpcAddress(settings), tls })
  await http.listen({ host: settings.host, port: settings.port, reusePort: settings.reusePort })
  table.set('', true)
  const tellCallers = () => table.set(healthName, healthy())
  health.onChange(ownHealth => {
    tellCallers()
    reportHealth(ownHealth, health.problem())
  })
  worker?.onWholeHealth(tellCallers)
  tellOfBackend(counters, backendHealth, health, log)
  log.info('serving', { grpc: settings.grpcUnixSocket || settings.grpcPort, http: settings.port })
  return {
    async stop() {
      health.terminate()
      await new Promise(resolve => setTimeout(resolve, settings.drainDelayMs))
      await Promise.all([grpc.drain(settings.drainTimeoutMs), http.drain(settings.drainTimeoutMs)])
      await feed.stop()
      await counters.close()
      await outlets.stop()
      await tracing?.stop(traceFlushTimeoutMs)
    },
  }
}

/** A backend that refuses every call has its connections, so that nothing else reports it. */
function openErrorWatch(log: Log): ErrorWatch {
  const errors = createErrorWatch(systemClock)
  errors.onChange(() => {
    const { problem } = errors
    if (problem === '') log.warn('count hits: the backend answers calls again')
    else log.warn(`count hits: the backend answers every call with an error: ${problem}`)
  })
  return errors
}

function openConfiguration(
  { mergeDomainConfigs, configType }: Settings,
  parts: Pick<ConfigurationOptions, 'stats' | 'limitStats' | 'log'>,
): Configuration {
  const spelling = configType === 'FILE' ? 'snake' : 'camel'
  return createConfiguration({ ...parts, clock: systemClock, mergeDomainConfigs, spelling })
}

function firstLoad(configuration: Configuration): Promise<void> {
  return new Promise(resolve => configuration.onLoad(resolve))
}

function openBackend(settings: Settings, stats: Stats, log: Log): Counters {
  const { backendType } = settings
  if (backendType === 'memcache') return openMemcached(settings, stats, log)
  return openCounters({ ...settings, backendType }, stats, log)
}

function openBackendHealth(settings: Settings, counters: Counters, errors: ErrorWatch) {
  const { cacheKeyPrefix, redisHealthCheckActiveConnection: checkActiveConnection } = settings
  return createBackendHealth({ counters, errors, cacheKeyPrefix, checkActiveConnection })
}

const problemOf = ({ problem }: Pick<Counters, 'problem'>) => ({ problem })

/** A backend that is away may make every call an error, and callers may not tell anybody. */
function tellOfBackend(
  counters: Counters,
  backendHealth: Pick<Counters, 'healthy' | 'problem'>,
  health: Health,
  log: Log,
): void {
  counters.onHealth(healthy => {
    if (healthy) log.info('the backend of the counters answers')
    // An end that was asked for is no news.
    else if (!health.terminating()) log.warn('the backend of the counters is away', problemOf(counters))
  })
  const patience = setTimeout(() => {
    if (backendHealth.healthy) return
    log.warn('the backend of the counters has not answered yet', problemOf(backendHealth))
  }, backendPatienceMs)
  patience.unref()
}
