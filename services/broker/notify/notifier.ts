import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { PostError, postWebhook, type ResolveName } from '@tollway/chassis/webhooks/post-webhook.ts'
import { signatureHeaders } from '@tollway/chassis/webhooks/signature.ts'
import type { LoggedRequest, StreamLog } from '../log/stream-log.ts'
import { getOrAdd } from '../routes/choose-route.ts'
import type { RouteWebhook } from '../routes/route.ts'
import type { RouteTable } from '../routes/route-table.ts'
import type { BrokerStats } from '../stats/broker-stats.ts'
import { type Attempt, DeliveryQueue, type DeliveryTiming, sizeOf } from './delivery-queue.ts'
import { beginOf, endOf, type Notification } from './notification.ts'
import { createPlaces } from './places.ts'

/** Posts the begin and the end of requests to the webhooks of their routes. */
export interface Notifier {
  /** Enqueues the begin of a request that this broker has accepted. Never waits and never throws. */
  begun(request: LoggedRequest): void
  /** The notifications that are not delivered yet. */
  readonly queued: number
  /** Attempts the queued notifications once more, drops the rest after a time, and ends. */
  stop(timeoutMs: number): Promise<void>
}

export interface NotifierOptions {
  /** Ends are those that this broker gave: exactly one broker posts the end of a request. */
  readonly streamLog: Pick<StreamLog, 'onEnd'>
  readonly routes: Pick<RouteTable, 'routes' | 'onChange'>
  readonly stats: Pick<BrokerStats, 'route' | 'gauge'>
  readonly policy: AddressPolicy
  readonly resolve: ResolveName
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly limits?: Partial<NotifierLimits>
}

export interface NotifierLimits extends DeliveryTiming {
  /** The maximum of one route, and of all; see `sizeOf`. */
  readonly routeBytes: number
  readonly allBytes: number
  /** Concurrent attempts of all routes. */
  readonly attempts: number
  /** The time of one attempt. */
  readonly attemptMs: number
  /** The interval between two log lines of the same message. */
  readonly logMs: number
}

export const defaultNotifierLimits: NotifierLimits = {
  routeBytes: 1024 * 1024,
  allBytes: 16 * 1024 * 1024,
  attempts: 128,
  attemptMs: 10_000,
  retryMs: 1_000,
  maxRetryMs: 60_000,
  maxAgeMs: 15 * 60_000,
  logMs: 10_000,
}

/**
 * Each route has its own queue and its own attempts, so that a receiver that fails does not delay the
 * notifications of other routes. The queues are bounded: notifications beyond a bound are dropped and
 * counted. The URL and the secrets are those of the route at the time of an attempt; a route without a
 * webhook loses its queue.
 */
export function createNotifier(options: NotifierOptions): Notifier {
  const { streamLog, routes, stats, clock, random } = options
  const limits = { ...defaultNotifierLimits, ...options.limits }
  const places = createPlaces(limits.attempts)
  const report = createReport(options.log, clock, limits.logMs)
  const queues = new Map<string, DeliveryQueue>()
  let webhooks: ReadonlyMap<string, RouteWebhook> = new Map()
  let queuedBytes = 0
  let onEmpty = () => {}

  function readRoutes(): void {
    webhooks = new Map(
      routes.routes().flatMap(({ name, webhook }) => (webhook === undefined ? [] : [[name, webhook]])),
    )
  }

  async function attempt(route: string, notification: Notification): Promise<Attempt> {
    const webhook = webhooks.get(route)
    if (webhook === undefined) return { outcome: 'gone', reason: 'the route has no webhook any more' }
    const answer = await post(webhook, notification, { ...options, timeoutMs: limits.attemptMs })
    const { counters } = stats.route(route)
    if ('status' in answer && answer.status >= 200 && answer.status <= 299) {
      counters.notifications_delivered += 1
      return { outcome: 'delivered' }
    }
    counters.notifications_failed += 1
    const reason = 'status' in answer ? `the answer was ${answer.status}` : answer.message
    if ('status' in answer && isRejection(answer.status)) return { outcome: 'gone', reason }
    report('post a notification', { route, notification: notification.id, reason })
    const retryAfterMs = 'status' in answer ? (answer.retryAfterSeconds ?? 0) * 1000 : 0
    return { outcome: 'failed', retryAfterMs: Math.min(retryAfterMs, limits.maxRetryMs) }
  }

  function drop(route: string, notification: Notification, reason: string): void {
    stats.route(route).counters.notifications_dropped += 1
    report('drop a notification', { route, notification: notification.id, reason })
  }

  function openQueue(route: string): DeliveryQueue {
    return new DeliveryQueue({
      attempt: notification => attempt(route, notification),
      onDrop: (notification, reason) => drop(route, notification, reason),
      onSize(change) {
        queuedBytes += change
        if (change > 0 || queues.get(route)?.count !== 0) return
        queues.delete(route)
        if (queues.size === 0) onEmpty()
      },
      ...{ places, random, timing: limits, monotonicMs: clock.monotonicMs },
    })
  }

  /** Beyond the limit of all routes, each may still have an equal share of it. */
  function hasRoom(queue: DeliveryQueue, size: number): boolean {
    const routeBytes = queue.bytes + size
    if (routeBytes > limits.routeBytes) return false
    return queuedBytes + size <= limits.allBytes || routeBytes <= limits.allBytes / queues.size
  }

  function enqueue(route: string, notification: Notification): void {
    const queue = getOrAdd(queues, route, () => openQueue(route))
    if (hasRoom(queue, sizeOf(notification))) {
      queue.add(notification)
      return
    }
    drop(route, notification, 'the queue is full')
    if (queue.count === 0) queues.delete(route)
  }

  readRoutes()
  const stopRoutes = routes.onChange(readRoutes)
  const stopEnds = streamLog.onEnd((request, end, progress) => {
    if (!webhooks.has(request.route)) return
    enqueue(request.route, endOf(request, end, { endedMs: clock.nowMs(), progress }))
  })
  const queued = () => queues.values().reduce((sum, { count }) => sum + count, 0)
  stats.gauge('notifications.queued', queued)
  return {
    begun(request) {
      if (webhooks.has(request.route)) enqueue(request.route, beginOf(request))
    },
    get queued() {
      return queued()
    },
    async stop(timeoutMs) {
      stopEnds()
      for (const queue of [...queues.values()]) queue.drain()
      if (queues.size > 0) await emptyWithin(timeoutMs)
      for (const queue of [...queues.values()]) queue.dropAll('the broker ends')
      stopRoutes()
    },
  }

  function emptyWithin(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    onEmpty = () => {
      clearTimeout(timer)
      resolve()
    }
    return promise
  }
}

/** 4xx answers that ask for a repetition: Request Timeout, Too Early, Too Many Requests. */
const temporary4xx: ReadonlySet<number> = new Set([408, 425, 429])

/** Whether the receiver rejects the message itself, so that no repetition can succeed. */
const isRejection = (status: number) => status >= 400 && status <= 499 && !temporary4xx.has(status)

interface Posting extends Pick<NotifierOptions, 'policy' | 'resolve' | 'clock'> {
  readonly timeoutMs: number
}

async function post(
  { url, secrets }: RouteWebhook,
  { id, body }: Notification,
  { policy, resolve, clock, timeoutMs }: Posting,
) {
  const signed = signatureHeaders({ id, timestampMs: clock.nowMs(), body }, secrets)
  const headers = { 'content-type': 'application/json', ...signed }
  try {
    return await postWebhook({ url, headers, body }, { policy, resolve, timeoutMs })
  } catch (error) {
    return error instanceof PostError ? error : new PostError((error as Error).message, { cause: error })
  }
}

/** Logs a message at most once in an interval, with the number of lines omitted since the last one. */
function createReport(log: Log, { monotonicMs }: Clock, intervalMs: number) {
  const last = new Map<string, { atMs: number; omitted: number }>()
  return (message: string, { reason, ...fields }: Readonly<Record<string, string>>) => {
    const known = last.get(message)
    if (known !== undefined && monotonicMs() - known.atMs < intervalMs) {
      known.omitted += 1
      return
    }
    log.warn(`${message}: ${reason}`, { ...fields, ...(known?.omitted ? { omitted: known.omitted } : {}) })
    last.set(message, { atMs: monotonicMs(), omitted: 0 })
  }
}
