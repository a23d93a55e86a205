import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Notification } from './notification.ts'

/** The result of one attempt. `gone`: no further attempt can succeed. */
export type Attempt =
  | { readonly outcome: 'delivered' }
  | { readonly outcome: 'gone'; readonly reason: string }
  | { readonly outcome: 'failed'; readonly retryAfterMs: number }

export interface DeliveryQueueOptions {
  readonly attempt: (notification: Notification) => Promise<Attempt>
  /** Called with each notification that is given up, and the reason. */
  readonly onDrop: (notification: Notification, reason: string) => void
  /** Called when the size of the queue has changed. */
  readonly onSize: (bytes: number) => void
  /** Places for attempts, which all queues share. */
  readonly places: Places
  readonly monotonicMs: () => number
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing: DeliveryTiming
}

export interface DeliveryTiming {
  /** The delay after the first failed attempt; it doubles with each further one. */
  readonly retryMs: number
  readonly maxRetryMs: number
  /** A notification of this age is not attempted again. */
  readonly maxAgeMs: number
}

/** A number of places, and the queues that wait for one, in their order. */
export interface Places {
  /** Returns whether there was a place. If not, calls `onFree` when there is one, which has to take it. */
  take(onFree: () => void): boolean
  release(): void
}

export function createPlaces(count: number): Places {
  const waiting = new Set<() => void>()
  let free = count
  return {
    take(onFree) {
      if (free === 0) {
        waiting.add(onFree)
        return false
      }
      free -= 1
      return true
    },
    release() {
      free += 1
      for (const onFree of waiting) {
        if (free === 0) return
        waiting.delete(onFree)
        onFree()
      }
    },
  }
}

/** The notifications of one route. A receiver that fails delays only these. */
export interface DeliveryQueue {
  readonly count: number
  readonly bytes: number
  add(notification: Notification): void
  /** No more retries are awaited: what waits is attempted once more at once. */
  drain(): void
  /** Drops everything that is left. */
  dropAll(reason: string): void
}

/** The measured memory of a notification besides its body. */
const overheadBytes = 512
/** Concurrent attempts of one route; only one while its receiver fails. */
const maxParallel = 4
const noSuccess = 'no attempt was successful'

export const sizeOf = ({ body }: Notification): number => Buffer.byteLength(body) + overheadBytes

interface Waiting {
  readonly notification: Notification
  readonly sinceMs: number
}

/** The undelivered notifications of one request, in their order: its end is attempted after its begin. */
interface Run {
  readonly waiting: Waiting[]
  /** The delays of retries since the first failure of the first notification. */
  backoff: Backoff | undefined
  retry: NodeJS.Timeout | undefined
}

export function createDeliveryQueue(options: DeliveryQueueOptions): DeliveryQueue {
  const { attempt, onDrop, onSize, places, monotonicMs, random, timing } = options
  const runs = new Map<string, Run>()
  /** The runs that can be attempted now. */
  const ready = new Set<Run>()
  let running = 0
  /** Whether the last attempt failed. Then attempts have a pause between them. */
  let failing = false
  const waits = { initialMs: timing.retryMs, maxMs: timing.maxRetryMs, factor: 2, jitter: 0.25, random }
  const pauses = createBackoff(waits)
  let pause: NodeJS.Timeout | undefined
  let draining = false
  let [count, bytes] = [0, 0]

  function resize(notification: Notification, sign: 1 | -1): void {
    count += sign
    bytes += sign * sizeOf(notification)
    onSize(sign * sizeOf(notification))
  }

  function pump(): void {
    for (const run of ready) {
      if (pause !== undefined || running >= (failing ? 1 : maxParallel) || !places.take(pump)) return
      ready.delete(run)
      running += 1
      void deliver(run)
    }
  }

  async function deliver(run: Run): Promise<void> {
    const [first] = run.waiting
    const result = first && (await attempt(first.notification))
    // It may have been dropped meanwhile.
    if (first !== undefined && result !== undefined && run.waiting[0] === first) settle(run, first, result)
    running -= 1
    places.release()
    pump()
  }

  function settle(run: Run, first: Waiting, result: Attempt): void {
    if (result.outcome === 'failed') {
      pauseAfterFailure()
      run.backoff ??= createBackoff(waits)
      const waitMs = Math.max(result.retryAfterMs, run.backoff.nextMs())
      if (!draining && !isTooOld(first, waitMs)) {
        retryLater(run, waitMs)
        return
      }
      onDrop(first.notification, draining ? 'the broker ends' : noSuccess)
    } else {
      failing = false
      pauses.reset()
      if (result.outcome === 'gone') onDrop(first.notification, result.reason)
    }
    remove(run, first)
  }

  function remove(run: Run, { notification }: Waiting): void {
    resize(notification, -1)
    run.waiting.shift()
    run.backoff = undefined
    if (run.waiting.length > 0) ready.add(run)
    else {
      ready.delete(run)
      runs.delete(notification.run)
    }
  }

  const isTooOld = ({ sinceMs }: Waiting, waitMs = 0) => monotonicMs() - sinceMs + waitMs > timing.maxAgeMs

  /** A receiver that does not answer occupies a place only for a share of the time. */
  function pauseAfterFailure(): void {
    if (draining || pause !== undefined) return
    failing = true
    pause = setTimeout(() => {
      pause = undefined
      dropOld()
      pump()
    }, pauses.nextMs())
    pause.unref()
  }

  function dropOld(): void {
    for (const run of [...ready]) {
      const [first] = run.waiting
      if (first === undefined || !isTooOld(first)) continue
      onDrop(first.notification, noSuccess)
      remove(run, first)
    }
  }

  function retryLater(run: Run, waitMs: number): void {
    run.retry = setTimeout(() => {
      run.retry = undefined
      ready.add(run)
      pump()
    }, waitMs)
    run.retry.unref()
  }

  return {
    get count() {
      return count
    },
    get bytes() {
      return bytes
    },
    add(notification) {
      const known = runs.get(notification.run)
      const run = known ?? { waiting: [], backoff: undefined, retry: undefined }
      run.waiting.push({ notification, sinceMs: monotonicMs() })
      resize(notification, 1)
      if (known !== undefined) return
      runs.set(notification.run, run)
      ready.add(run)
      pump()
    },
    drain() {
      draining = true
      clearTimeout(pause)
      pause = undefined
      for (const run of runs.values()) {
        if (run.retry === undefined) continue
        clearTimeout(run.retry)
        run.retry = undefined
        ready.add(run)
      }
      pump()
    },
    dropAll(reason) {
      clearTimeout(pause)
      for (const run of runs.values()) {
        clearTimeout(run.retry)
        for (const { notification } of run.waiting.splice(0)) {
          resize(notification, -1)
          onDrop(notification, reason)
        }
      }
      runs.clear()
      ready.clear()
    },
  }
}
