import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { reportHealth } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { openTracing, type Tracing } from '@tollway/chassis/tracing/tracing.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { resolveBySystem } from '@tollway/chassis/webhooks/post-webhook.ts'
import { assertAddressesFree } from '@tollway/grpc/server/assert-addresses-free.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { HealthTable } from '@tollway/grpc/server/health.ts'
import { openServerTls } from '@tollway/grpc/server/open-server-tls.ts'
import { grpcAddress } from '@tollway/grpc/server/server-settings.ts'
import type { GrpcServerOptions } from '@tollway/grpc/server.ts'
import { BrokerStats } from './broker-stats.ts'
import { createBrokerHealth, StreamLogHealth } from './health.ts'
import type { RouteFeed, RouteFeedOptions } from './management/route-feed.ts'
import { RouteTable } from './routes/route-table.ts'
import { animationMethods, animationServices } from './servers/grpc-methods.ts'
import { listPagePorts, openPages } from './servers/open-pages.ts'
import { createPreviews } from './servers/preview-page.ts'
import { streamsText } from './servers/streams-page.ts'
import { StreamWatch } from './servers/watch-streams.ts'
import type { Settings } from './settings.ts'
import { MemoryLog } from './stream-log/memory.ts'
import { systemRepeat } from './stream-log/repeat.ts'
import type { StreamLog } from './stream-log/stream-log.ts'
import { Broker } from './streams/broker.ts'
import type { BrokerOptions } from './streams/stream-context.ts'
import { Notifier } from './webhooks/notifier.ts'

/** The time to export the last traces. */
const traceFlushTimeoutMs = 3_000
/** The time in which callers of an ended request can read its last status. */
const lastStatusMs = 1_000
/** The time for the last notifications, after all requests have ended. */
const lastNotificationsMs = 2_000
/** The limit of calls of one connection: a proxy may send all calls over one. */
const maxConcurrentStreams = 10_000

/**
 * Resolves when the service accepts calls; with a feed, after the first routes have arrived. Errors of
 * addresses and files are reported before any wait.
 */
export async function startService(settings: Settings, log: Log) {
  await assertAddressesFree(settings, listPagePorts(settings))
  const tls = openServerTls(settings, { log })
  const tracing = await openTracing(settings, log)
  const { streamLog, table, notifier, broker, stats } = await openBroker(settings, tracing, log)
  const health = createBrokerHealth(streamLog)
  const watch = new StreamLogHealth(streamLog)
  stats.gauge('backend.failing', () => Number(watch.problem !== ''))
  const makePreview = createPreviews(streamLog)
  const pages = await openPages(settings, {
    broker,
    streams: streamLog,
    makePreview,
    stats,
    health,
    clock: systemClock,
    tls,
    log,
    backendProblem: () => watch.problem,
    watch: new StreamWatch({ broker, clock: systemClock, repeat: systemRepeat }),
  })
  const operatorPages = {
    list: (maxBytes: number) => streamsText(broker, systemClock.nowMs(), maxBytes),
    preview: makePreview,
  }
  const feed = await openFeed(settings, { table, loads: () => broker.loads(), pages: operatorPages, log })
  const healthTable = new HealthTable()
  const grpc = createGrpcServer(grpcOptions(settings, broker, healthTable, log))
  await waitForRoutes(feed, table)
  const bound = await grpc.listen({ ...grpcAddress(settings), tls })
  healthTable.set('', true)
  health.onChange(healthy => {
    for (const name of Object.values(animationServices)) healthTable.set(name, healthy)
    reportHealth(healthy, health.problem)
    if (healthy) watch.startReports()
  })
  health.serve()
  watch.logChanges(log)
  log.info('start service', {
    grpc: settings.grpcUnixSocket || settings.grpcPort,
    streams: settings.streamLog,
  })
  return {
    grpc: bound,
    debugPort: pages.debugPort,
    adminPort: pages.adminPort,
    /**
     * Makes the process unhealthy, and rejects new calls after DRAIN_DELAY. Resolves when the running requests
     * have ended, at the latest after DRAIN_TIMEOUT.
     */
    async stop(): Promise<void> {
      health.terminate()
      watch.stop()
      await pause(settings.drainDelayMs)
      health.close()
      broker.drain()
      const closed = grpc.drain(settings.drainTimeoutMs + lastStatusMs)
      await Promise.race([broker.idle(), pause(settings.drainTimeoutMs, undefined, { ref: false })])
      await broker.close()
      await Promise.all([closed, notifier.stop(lastNotificationsMs)])
      await feed?.stop()
      await pages.stop()
      await tracing?.stop(traceFlushTimeoutMs)
    },
  }
}

/** Creates the broker, without opening a port. */
async function openBroker(settings: Settings, tracing: Tracing | undefined, log: Log) {
  const stats = new BrokerStats()
  const streamLog = await openStreamLog(settings)
  const table = new RouteTable({ clock: systemClock, log })
  const notifier = new Notifier({
    streamLog,
    routes: table,
    stats,
    log,
    clock: systemClock,
    random: Math.random,
    policy: new AddressPolicy(settings.webhookAllowedCidrs, settings.webhookAllowHttp),
    resolve: resolveBySystem,
  })
  const options: BrokerOptions = {
    log: streamLog,
    routes: table,
    stats,
    clock: systemClock,
    tracing,
    onBegun: request => notifier.enqueueBegin(request),
    limits: settings,
    newTraceparent: () => (tracing === undefined ? '' : newTraceparent(settings.tracingSamplingRate)),
  }
  stats.gauge('log.healthy', () => Number(streamLog.healthy))
  stats.gauge('process.resident_bytes', () => process.memoryUsage.rss())
  return { streamLog, table, notifier, broker: new Broker(options, systemRepeat), stats }
}

function grpcOptions(
  settings: Settings,
  broker: Broker,
  health: NonNullable<GrpcServerOptions['health']>,
  log: Log,
): GrpcServerOptions {
  return {
    memory: new MemoryBudget(Math.max(settings.requestMemoryBytes, 2 * settings.maxMessageBytes)),
    methods: animationMethods(broker, { publicName: settings.nvidiaAceNames }),
    health,
    onDefect: (path, error) =>
      log.error('handle call failed', { path, error: (error as Error).stack ?? String(error) }),
    limits: {
      maxReceiveBytes: settings.maxMessageBytes,
      maxSendBytes: Number.MAX_SAFE_INTEGER,
      maxConcurrentStreams,
      maxConnectionAgeMs: settings.grpcMaxConnectionAgeMs,
      maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGraceMs,
    },
  }
}

/** Opens the stream log. Imports the Redis client only if it is needed. */
async function openStreamLog(settings: Settings): Promise<StreamLog> {
  const { redisUrl: url, redisKeyPrefix: keyPrefix, maxKeptBytes } = settings
  const shared = { clock: systemClock, repeat: systemRepeat, maxKeptBytes }
  if (settings.streamLog === 'memory') return new MemoryLog({ ...shared, newKey: randomUUID })
  const { createRedisLog } = await import('./stream-log/redis/redis-log.ts')
  return createRedisLog({ ...shared, url, keyPrefix, podId: randomUUID(), random: Math.random })
}

/** Opens the feed, if the settings name one. Imports the gRPC client only then. */
async function openFeed(settings: Settings, options: RouteFeedOptions): Promise<RouteFeed | undefined> {
  if (settings.routes === 'none') return undefined
  const { openRouteFeed } = await import('./management/route-feed.ts')
  return openRouteFeed(settings, options)
}

/** Waits for the first routes, which may require tokens: no call is accepted before. */
async function waitForRoutes(feed: RouteFeed | undefined, table: RouteTable): Promise<void> {
  if (feed === undefined) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = table.onChange(resolve)
  feed.start()
  await promise
  stop()
}

/** Returns a new `traceparent` (W3C Trace Context), sampled as often as a call without a parent. */
function newTraceparent(samplingRate: number): string {
  const sampled = Math.random() < samplingRate ? '01' : '00'
  return `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-${sampled}`
}
