import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import {
  type PostAnswer,
  PostError,
  postWebhook,
  type ResolveName,
} from '@tollway/chassis/webhooks/post-webhook.ts'
import { signatureHeaders } from '@tollway/chassis/webhooks/signature.ts'
import {
  claimDueDeliveries,
  giveUpDelivery,
  markDelivered,
  postponeDelivery,
  type WebhookDelivery,
} from './storage/delivery/webhook-deliveries.ts'
import { disableWebhookEndpoint } from './storage/delivery/webhooks.ts'
import type { Storage } from './storage/storage.ts'

interface WebhookDelivererOptions {
  readonly storage: Storage
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the attempts. */
  readonly random: () => number
  readonly policy: AddressPolicy
  readonly resolve: ResolveName
  readonly log: Log
  readonly timeoutMs?: number
  /** The certificates, in PEM, of additional trusted authorities, for tests. */
  readonly ca?: string
  readonly onOutcome?: (outcome: DeliveryOutcome) => void
}

type DeliveryOutcome = 'delivered' | 'postponed' | 'given-up' | 'disabled'

/** The maximum number of attempts that this process makes at the same time, in total and at one endpoint. */
const maxInFlight = 32
const maxPerEndpoint = 4
const defaultTimeoutMs = 15_000
/** How long a claimed delivery is reserved for this process: longer than an attempt takes. */
const deliveryLeaseMs = 60_000
/** `deliverDue` looks for new events at least this often while attempts run. */
const maxIdleMs = 250

/**
 * The waits after the first, second and each further failed attempt, as the Standard Webhooks specification
 * proposes: 5 seconds to 24 hours, about four days in total.
 */
const waitsSeconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400, 86_400]
const maxRetryAfterSeconds = 86_400

/**
 * Returns the wait after the attempt with the number `attempts` has failed: the wait in `waitsSeconds`, longer by
 * up to a quarter at random, and at least the time that the receiver requests, of which at most 24 hours
 * count. Returns null after the last attempt.
 */
export function deliveryWaitMs(
  attempts: number,
  random: () => number,
  retryAfterSeconds: number | null = null,
): number | null {
  const planned = waitsSeconds[attempts - 1]
  if (planned === undefined) return null
  const requested = Math.min(retryAfterSeconds ?? 0, maxRetryAfterSeconds)
  return Math.max(Math.round(planned * 1_000 * (1 + random() / 4)), requested * 1_000)
}

/**
 * Delivers each event at least once to each endpoint that subscribes to its type. Several processes can do
 * this at the same time: a delivery is reserved for one process until `deliveryLeaseMs` have passed, and then
 * another process can continue.
 */
export class WebhookDeliverer {
  readonly #options: WebhookDelivererOptions
  /** The running attempts, each with the id of its endpoint. */
  readonly #running = new Map<Promise<void>, string>()

  constructor(options: WebhookDelivererOptions) {
    this.#options = options
  }

  /**
   * Starts due deliveries until `maxInFlight` run, and waits until one of them ends or `maxIdleMs` have
   * passed.
   *
   * @returns whether to call again at once
   */
  async deliverDue(): Promise<boolean> {
    const { storage, clock } = this.#options
    const running = this.#running
    const wasRunning = running.size > 0
    const free = maxInFlight - running.size
    if (free > 0) {
      const nowMs = clock.nowMs()
      const claim = {
        nowMs,
        leaseUntilMs: nowMs + deliveryLeaseMs,
        limit: free,
        perEndpoint: maxPerEndpoint,
        without: this.#busyEndpoints(),
      }
      const due = await storage.transaction(tx => claimDueDeliveries(tx, claim))
      for (const delivery of due) this.#start(delivery)
    }
    // If an attempt ended during the query, its next event may be due now, so the caller shall call again.
    if (running.size === 0) return wasRunning
    await Promise.race([...running.keys(), pause(maxIdleMs)])
    return true
  }

  async drain(): Promise<void> {
    await Promise.all(this.#running.keys())
  }

  #busyEndpoints(): readonly string[] {
    const counts = Map.groupBy(this.#running.values(), endpoint => endpoint)
    return [...counts].filter(([, all]) => all.length >= maxPerEndpoint).map(([endpoint]) => endpoint)
  }

  #start(delivery: WebhookDelivery): void {
    const end = deliver(this.#options, delivery)
      .catch((error: Error) => {
        const { eventId: event, endpointId: endpoint } = delivery
        const fields = { event, endpoint, reason: error.message }
        this.#options.log.warn('store webhook outcome failed', fields)
      })
      .finally(() => this.#running.delete(end))
    this.#running.set(end, delivery.endpointId)
  }
}

/** @throws StorageError if the outcome cannot be stored; the delivery is due again after `deliveryLeaseMs` */
async function deliver(options: WebhookDelivererOptions, delivery: WebhookDelivery): Promise<void> {
  const { storage, clock, onOutcome, log } = options
  const { endpointId, eventId, attempts } = delivery
  const answer = await attempt(options, delivery)
  const nowMs = clock.nowMs()
  if ('status' in answer && answer.status >= 200 && answer.status <= 299) {
    await storage.transaction(tx => markDelivered(tx, delivery, nowMs))
    onOutcome?.('delivered')
    return
  }
  const error = 'status' in answer ? `the answer was ${answer.status}` : answer.message
  const fields = { endpoint: endpointId, event: eventId, attempts, reason: error }
  if ('status' in answer && answer.status === 410) {
    log.warn('disable webhook endpoint', fields)
    await storage.transaction(async tx => {
      await giveUpDelivery(tx, delivery, { error, atMs: nowMs })
      await disableWebhookEndpoint(tx, endpointId, nowMs)
    })
    onOutcome?.('disabled')
    return
  }
  const retryAfterSeconds = 'status' in answer ? answer.retryAfterSeconds : null
  const waitMs = deliveryWaitMs(attempts, options.random, retryAfterSeconds)
  if (waitMs === null) {
    log.warn('deliver webhook failed', { ...fields, retryInMs: null })
    await storage.transaction(tx => giveUpDelivery(tx, delivery, { error, atMs: nowMs }))
  } else {
    log.debug('deliver webhook failed', { ...fields, retryInMs: waitMs })
    await storage.transaction(tx => postponeDelivery(tx, delivery, { error, dueMs: nowMs + waitMs }))
  }
  onOutcome?.(waitMs === null ? 'given-up' : 'postponed')
}

async function attempt(
  { clock, policy, resolve, timeoutMs = defaultTimeoutMs, ca }: WebhookDelivererOptions,
  { eventId, url, body, secrets }: WebhookDelivery,
): Promise<PostAnswer | PostError> {
  const signed = { id: eventId, timestampMs: clock.nowMs(), body }
  const headers = { 'content-type': 'application/json', ...signatureHeaders(signed, secrets) }
  try {
    const posting = { policy, resolve, timeoutMs, ...(ca === undefined ? {} : { ca }) }
    return await postWebhook({ url, headers, body }, posting)
  } catch (error) {
    return error instanceof PostError ? error : new PostError((error as Error).message, { cause: error })
  }
}
