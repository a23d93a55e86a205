import type { Clock } from '@tollway/chassis/clock.ts'
import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import { Semaphore } from '@tollway/chassis/limits/semaphore.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { PostError, postWebhook, type ResolveName } from '@tollway/chassis/webhooks/post-webhook.ts'
import { signatureHeaders } from '@tollway/chassis/webhooks/signature.ts'
import type { BrokerStats } from '../broker-stats.ts'
import type { RouteWebhook } from '../routes/route.ts'
import type { RouteTable } from '../routes/route-table.ts'
import type { LoggedRequest, StreamLog } from '../stream-log/stream-log.ts'
import { type Attempt, DeliveryQueue, type DeliveryTiming, measureNotification } from './delivery-queue.ts'
import { createBegunNotification, createEndedNotification, type Notification } from './notification.ts'

interface NotifierOptions {
  /** Reports the ends that this broker gave to requests: exactly one broker posts each end. */
  readonly streamLog: Pick<StreamLog, 'onEnd'>
  readonly routes: Pick<RouteTable, 'routes' | 'onChange'>
  readonly stats: Pick<BrokerStats, 'route' | 'gauge'>
  readonly policy: AddressPolicy
  readonly resolve: ResolveName
  readonly clock: Clock
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
  readonly limits?: Partial<NotifierLimits>
}

interface NotifierLimits extends DeliveryTiming {
  /** The limit of the queue of one route; see `measureNotification`. */
  readonly routeBytes: number
  readonly allBytes: number
  /** The limit of concurrent attempts of all routes. */
  readonly attempts: number
  readonly attemptMs: number
  /** A message of the log is repeated after this time. */
  readonly logMs: number
}

const defaultNotifierLimits: NotifierLimits = {
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
 * Posts the begin and the end of requests to the webhooks of their routes.
 *
 * Each route has its own queue and attempts, so a failing receiver does not delay other routes. Notifications
 * beyond the bounds of the queues are dropped and counted. Each attempt uses the URL and secrets that the
 * route has at that time; if the route has no webhook any more, its notifications are dropped.
 */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #limits: NotifierLimits
  readonly #permits: Semaphore
  readonly #warn: ReturnType<typeof limitWarnings>
  readonly #queues = new Map<string, DeliveryQueue>()
  readonly #stopRoutes: () => void
  readonly #stopEnds: () => void
  #webhooks: ReadonlyMap<string, RouteWebhook> = new Map()
  #queuedBytes = 0
  #onEmpty = () => {}

  constructor(options: NotifierOptions) {
    const { streamLog, routes, stats, log, clock } = options
    this.#options = options
    this.#limits = { ...defaultNotifierLimits, ...options.limits }
    this.#permits = new Semaphore(this.#limits.attempts)
    this.#warn = limitWarnings(log, clock, this.#limits.logMs)
    this.#readRoutes()
    this.#stopRoutes = routes.onChange(() => this.#readRoutes())
    this.#stopEnds = streamLog.onEnd((request, end, progress) =>
      this.#enqueue(request.route, () =>
        createEndedNotification(request, end, { endedMs: clock.nowMs(), progress }),
      ),
    )
    stats.gauge('notifications.queued', () => this.queued)
  }

  /** Enqueues the begin of a request that this broker has accepted. Never waits and never throws. */
  enqueueBegin(request: LoggedRequest): void {
    this.#enqueue(request.route, () => createBegunNotification(request))
  }

  /** The number of notifications that are not delivered yet. */
  get queued(): number {
    return this.#queues.values().reduce((sum, { count }) => sum + count, 0)
  }

  /** Attempts the queued notifications once more, and drops those that are left after the timeout. */
  async stop(timeoutMs: number): Promise<void> {
    this.#stopEnds()
    for (const queue of [...this.#queues.values()]) queue.drain()
    if (this.#queues.size > 0) await this.#emptyWithin(timeoutMs)
    for (const queue of [...this.#queues.values()]) queue.dropAll('the broker ends')
    this.#stopRoutes()
  }

  #readRoutes(): void {
    this.#webhooks = new Map(
      this.#options.routes
        .routes()
        .flatMap(({ name, webhook }) => (webhook === undefined ? [] : [[name, webhook]])),
    )
  }

  #enqueue(route: string, create: () => Notification): void {
    if (!this.#webhooks.has(route)) return
    const notification = create()
    const queue = getOrAdd(this.#queues, route, () => this.#openQueue(route))
    if (this.#hasRoom(queue, measureNotification(notification))) {
      queue.add(notification)
      return
    }
    this.#drop(route, notification, 'the queue is full')
    if (queue.count === 0) this.#queues.delete(route)
  }

  #openQueue(route: string): DeliveryQueue {
    const { random, clock } = this.#options
    return new DeliveryQueue({
      attempt: notification => this.#attempt(route, notification),
      onDrop: (notification, reason) => this.#drop(route, notification, reason),
      onSize: change => {
        this.#queuedBytes += change
        if (change > 0 || this.#queues.get(route)?.count !== 0) return
        this.#queues.delete(route)
        if (this.#queues.size === 0) this.#onEmpty()
      },
      permits: this.#permits,
      random,
      timing: this.#limits,
      monotonicMs: clock.monotonicMs,
    })
  }

  /**
   * Returns whether the queue has room. When all routes together exceed the limit, each may still have an
   * equal share.
   */
  #hasRoom(queue: DeliveryQueue, bytes: number): boolean {
    const { routeBytes, allBytes } = this.#limits
    const queuedBytes = queue.bytes + bytes
    if (queuedBytes > routeBytes) return false
    return this.#queuedBytes + bytes <= allBytes || queuedBytes <= allBytes / this.#queues.size
  }

  async #attempt(route: string, notification: Notification): Promise<Attempt> {
    const webhook = this.#webhooks.get(route)
    if (webhook === undefined) return { outcome: 'rejected', reason: 'the route has no webhook any more' }
    const answer = await post(webhook, notification, { ...this.#options, timeoutMs: this.#limits.attemptMs })
    const { counters } = this.#options.stats.route(route)
    if ('status' in answer && answer.status >= 200 && answer.status <= 299) {
      counters.notifications_delivered += 1
      return { outcome: 'delivered' }
    }
    counters.notifications_failed += 1
    const reason = 'status' in answer ? `the answer was ${answer.status}` : answer.message
    if ('status' in answer && isRejection(answer.status)) return { outcome: 'rejected', reason }
    this.#warn('post notification failed', { route, notification: notification.id, reason })
    const retryAfterMs = 'status' in answer ? (answer.retryAfterSeconds ?? 0) * 1000 : 0
    return { outcome: 'failed', retryAfterMs: Math.min(retryAfterMs, this.#limits.maxRetryMs) }
  }

  #drop(route: string, { id }: Notification, reason: string): void {
    this.#options.stats.route(route).counters.notifications_dropped += 1
    this.#warn('drop notification', { route, notification: id, reason })
  }

  /** Resolves when no notification is queued, or after the timeout. */
  async #emptyWithin(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    this.#onEmpty = resolve
    await promise
    clearTimeout(timer)
  }
}

/**
 * The statuses of 4xx after which a repetition may succeed: Request Timeout, Too Early, Too Many Requests.
 */
const temporary4xx: ReadonlySet<number> = new Set([408, 425, 429])

/** Returns whether the receiver rejects the message itself: no repetition can succeed. */
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

/** Logs each message at most once in an interval, with the number of lines that were omitted since. */
function limitWarnings(log: Log, { monotonicMs }: Clock, intervalMs: number) {
  const last = new Map<string, { atMs: number; omitted: number }>()
  return (message: string, fields: Readonly<Record<string, string>>) => {
    const known = last.get(message)
    if (known !== undefined && monotonicMs() - known.atMs < intervalMs) {
      known.omitted += 1
      return
    }
    log.warn(message, known?.omitted ? { ...fields, omitted: known.omitted } : fields)
    last.set(message, { atMs: monotonicMs(), omitted: 0 })
  }
}
