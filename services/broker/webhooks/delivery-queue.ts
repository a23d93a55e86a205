import { type Backoff, type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Semaphore } from '@tollway/chassis/limits/semaphore.ts'
import type { Notification } from './notification.ts'

/** The outcome of an attempt. After `rejected`, no further attempt can succeed. */
export type Attempt =
  | { readonly outcome: 'delivered' }
  | { readonly outcome: 'rejected'; readonly reason: string }
  | { readonly outcome: 'failed'; readonly retryAfterMs: number }

interface DeliveryQueueOptions {
  readonly attempt: (notification: Notification) => Promise<Attempt>
  /** Called with a notification that is given up. */
  readonly onDrop: (notification: Notification, reason: string) => void
  readonly onSize: (bytes: number) => void
  /** Limits the concurrent attempts of all queues. */
  readonly permits: Semaphore
  readonly monotonicMs: () => number
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  readonly timing: DeliveryTiming
}

export interface DeliveryTiming {
  /** The delay after the first failed attempt. It doubles with each further one, up to `maxRetryMs`. */
  readonly retryMs: number
  readonly maxRetryMs: number
  /** A notification that is older than this is not attempted again. */
  readonly maxAgeMs: number
}

/** The measured memory of a notification without its body. */
const overheadBytes = 512
/** The most attempts of one route at the same time; only one while its receiver fails. */
const maxParallel = 4
const noSuccess = 'no attempt was successful'

export const measureNotification = ({ body }: Notification): number => Buffer.byteLength(body) + overheadBytes

interface Waiting {
  readonly notification: Notification
  readonly sinceMs: number
}

/**
 * The undelivered notifications of one request, in order: its end waits until its begin was delivered or
 * dropped.
 */
interface Run {
  readonly waiting: Waiting[]
  /** The delays between attempts of the first notification; undefined before its first failure. */
  backoff: Backoff | undefined
  retry: NodeJS.Timeout | undefined
}

/** The notifications of one route. If its receiver fails, only these are delayed. */
export class DeliveryQueue {
  readonly #options: DeliveryQueueOptions
  readonly #delays: BackoffOptions
  readonly #pause: FailurePause
  readonly #runs = new Map<string, Run>()
  /** Runs whose first notification can be attempted now. */
  readonly #ready = new Set<Run>()
  #running = 0
  #draining = false
  #isAwaiting = false
  #count = 0
  #bytes = 0

  constructor(options: DeliveryQueueOptions) {
    this.#options = options
    const { timing, random } = options
    this.#delays = { initialMs: timing.retryMs, maxMs: timing.maxRetryMs, factor: 2, jitter: 0.25, random }
    this.#pause = new FailurePause(this.#delays, () => {
      this.#dropExpired()
      this.#pump()
    })
  }

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.#bytes
  }

  add(notification: Notification): void {
    const known = this.#runs.get(notification.run)
    const run = known ?? { waiting: [], backoff: undefined, retry: undefined }
    run.waiting.push({ notification, sinceMs: this.#options.monotonicMs() })
    this.#resize(notification, 1)
    if (known !== undefined) return
    this.#runs.set(notification.run, run)
    this.#ready.add(run)
    this.#pump()
  }

  /** Attempts each waiting notification at once, for the last time. */
  drain(): void {
    this.#draining = true
    this.#pause.cancel()
    for (const run of this.#runs.values()) {
      if (run.retry === undefined) continue
      clearTimeout(run.retry)
      run.retry = undefined
      this.#ready.add(run)
    }
    this.#pump()
  }

  dropAll(reason: string): void {
    this.#pause.cancel()
    for (const run of this.#runs.values()) {
      clearTimeout(run.retry)
      for (const { notification } of run.waiting.splice(0)) {
        this.#resize(notification, -1)
        this.#options.onDrop(notification, reason)
      }
    }
    this.#runs.clear()
    this.#ready.clear()
  }

  #resize(notification: Notification, sign: 1 | -1): void {
    const change = sign * measureNotification(notification)
    this.#count += sign
    this.#bytes += change
    this.#options.onSize(change)
  }

  /** @param hasPermit whether a permit for the next attempt is held */
  #pump(hasPermit = false): void {
    const { permits } = this.#options
    let isPermitted = hasPermit
    for (const run of this.#ready) {
      const isBusy = this.#running >= (this.#pause.failing ? 1 : maxParallel)
      if (this.#pause.active || isBusy) break
      if (!isPermitted && !permits.tryAcquire()) {
        void this.#awaitPermit()
        return
      }
      isPermitted = false
      this.#ready.delete(run)
      this.#running += 1
      void this.#deliver(run)
    }
    if (isPermitted) permits.release()
  }

  async #awaitPermit(): Promise<void> {
    if (this.#isAwaiting) return
    this.#isAwaiting = true
    await this.#options.permits.acquire()
    this.#isAwaiting = false
    this.#pump(true)
  }

  async #deliver(run: Run): Promise<void> {
    const [first] = run.waiting
    const result = first && (await this.#options.attempt(first.notification))
    // The notification may have been dropped meanwhile.
    if (first !== undefined && result !== undefined && run.waiting[0] === first)
      this.#settle(run, first, result)
    this.#running -= 1
    this.#options.permits.release()
    this.#pump()
  }

  #settle(run: Run, first: Waiting, result: Attempt): void {
    const { onDrop } = this.#options
    if (result.outcome === 'failed') {
      if (!this.#draining) this.#pause.failed()
      run.backoff ??= createBackoff(this.#delays)
      const waitMs = Math.max(result.retryAfterMs, run.backoff.nextMs())
      if (!this.#draining && !this.#isExpired(first, waitMs)) {
        this.#retryLater(run, waitMs)
        return
      }
      onDrop(first.notification, this.#draining ? 'the broker ends' : noSuccess)
    } else {
      this.#pause.answered()
      if (result.outcome === 'rejected') onDrop(first.notification, result.reason)
    }
    this.#remove(run, first)
  }

  #remove(run: Run, { notification }: Waiting): void {
    this.#resize(notification, -1)
    run.waiting.shift()
    run.backoff = undefined
    if (run.waiting.length > 0) this.#ready.add(run)
    else {
      this.#ready.delete(run)
      this.#runs.delete(notification.run)
    }
  }

  #isExpired({ sinceMs }: Waiting, waitMs = 0): boolean {
    return this.#options.monotonicMs() - sinceMs + waitMs > this.#options.timing.maxAgeMs
  }

  #dropExpired(): void {
    for (const run of [...this.#ready]) {
      const [first] = run.waiting
      if (first === undefined || !this.#isExpired(first)) continue
      this.#options.onDrop(first.notification, noSuccess)
      this.#remove(run, first)
    }
  }

  #retryLater(run: Run, waitMs: number): void {
    run.retry = setTimeout(() => {
      run.retry = undefined
      this.#ready.add(run)
      this.#pump()
    }, waitMs)
    run.retry.unref()
  }
}

/**
 * After a failed attempt, a queue makes no attempts for a time that grows with each further failure: a
 * receiver that does not answer holds a permit only for a small share of the time.
 */
class FailurePause {
  readonly #backoff: Backoff
  readonly #onOver: () => void
  #failing = false
  #timer: NodeJS.Timeout | undefined

  constructor(delays: BackoffOptions, onOver: () => void) {
    this.#backoff = createBackoff(delays)
    this.#onOver = onOver
  }

  /** Whether the last attempt failed. */
  get failing(): boolean {
    return this.#failing
  }

  /** Whether no attempt may begin. */
  get active(): boolean {
    return this.#timer !== undefined
  }

  /** Begins a pause, unless one is active. */
  failed(): void {
    if (this.#timer !== undefined) return
    this.#failing = true
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#onOver()
    }, this.#backoff.nextMs())
    this.#timer.unref()
  }

  /** To be called when the receiver has answered: the next pause is short again. */
  answered(): void {
    this.#failing = false
    this.#backoff.reset()
  }

  /** Ends the pause without a call of `onOver`. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
