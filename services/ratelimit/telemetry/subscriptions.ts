import type { DecisionObserver, ObserverSlot } from '../limiter/decision.ts'
import {
  divideAmongWorkers,
  openWatch,
  type SubscriptionRequest,
  type Watch,
  type WatchParts,
  type WatchReport,
} from './watches.ts'

const maxSubscriptions = 200
const reportIntervalMs = 1_000

interface Running {
  readonly watch: Watch
  readonly isTap: boolean
  maxTapped: number
  endMs: number
}

export interface SubscriptionOptions extends WatchParts {
  readonly slot: ObserverSlot
  /** An observer that is always set, also without a subscription; undefined for none. */
  readonly always: DecisionObserver | undefined
  readonly onReport: (report: WatchReport) => void
  readonly allowTap: boolean
}

/**
 * The running subscriptions of the operator. Each ends after its `ttlMs` unless it is renewed. Without a
 * subscription no timer runs, and only the observer `always` is set.
 */
export function createSubscriptions(options: SubscriptionOptions) {
  const { slot, always, onReport, allowTap, clock, maxTapped, worker } = options
  const running = new Map<bigint, Running>()
  let timer: NodeJS.Timeout | undefined
  slot.observer = always

  const countTaps = () => [...running.values()].filter(({ isTap }) => isTap).length

  function observe(): void {
    const observers = [...running.values()].flatMap(({ watch: { observer } }) => observer ?? [])
    if (always !== undefined) observers.unshift(always)
    slot.observer = observers.length > 1 ? combineObservers(observers) : observers[0]
    if (running.size === 0) {
      clearInterval(timer)
      timer = undefined
    } else timer ??= setInterval(reportAll, reportIntervalMs).unref()
  }

  function reportAll(): void {
    const nowMs = clock.monotonicMs()
    for (const [id, { endMs }] of running) if (nowMs >= endMs) running.delete(id)
    const ofEachTap = Math.floor(maxTapped / Math.max(1, countTaps()))
    const tapShare = divideAmongWorkers(ofEachTap, worker, Math.floor(clock.nowMs() / 1_000))
    for (const { watch, maxTapped } of running.values()) onReport(watch.report(Math.min(tapShare, maxTapped)))
    observe()
  }

  return {
    /** Starts a subscription, or renews the one with this id. Returns false if too many run. */
    subscribe(request: SubscriptionRequest, ttlMs: number): boolean {
      const endMs = clock.monotonicMs() + ttlMs
      const known = running.get(request.id)
      if (known !== undefined) {
        known.endMs = endMs
        known.maxTapped = request.maxTapped
        return true
      }
      if (running.size >= maxSubscriptions) return false
      const isTap = request.what === 'tap'
      if (isTap && (!allowTap || countTaps() >= maxTapped)) return false
      running.set(request.id, {
        watch: openWatch(request, options),
        isTap,
        maxTapped: request.maxTapped,
        endMs,
      })
      observe()
      return true
    },
    unsubscribe(id: bigint): void {
      if (running.delete(id)) observe()
    },
    clear(): void {
      running.clear()
      observe()
    },
  }
}

function combineObservers(observers: readonly DecisionObserver[]): DecisionObserver {
  return {
    decided(request, matches, statuses, nowMs, atMicros) {
      for (const observer of observers) observer.decided(request, matches, statuses, nowMs, atMicros)
    },
  }
}
