import { BoundedHistogram } from '@tollway/chassis/metrics/bounded-histogram.ts'
import { type RuleName, ruleNames } from '../rules/stream-rules.ts'

/** Counters of a route's requests. They only increase. */
export const counterNames = [
  'pushes',
  'requests_served',
  'messages_in',
  'messages_out',
  'bytes_in',
  'bytes_out',
  'messages_dropped',
  'requests_dropped',
  'requests_superseded',
  'requests_interrupted',
  'producers_suspended',
  'producers_resumed',
  'producers_restarted',
  'producers_lost',
  'consumers_cut_off',
  'notifications_delivered',
  'notifications_failed',
  'notifications_dropped',
] as const
export type CounterName = (typeof counterNames)[number]

/** Durations in milliseconds. */
export const histogramNames = ['time_to_first_message_ms', 'lag_ms', 'audio_animation_skew_ms'] as const

/** The upper bounds of histograms, from an imperceptible delay to a broken stream. */
const boundsMs: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000,
]
export type HistogramName = (typeof histogramNames)[number]

export interface RouteStats {
  readonly counters: Record<CounterName, number>
  /** Violations by rule. */
  readonly violations: Record<RuleName, number>
  readonly histograms: Readonly<Record<HistogramName, BoundedHistogram>>
}

/** All statistics. Gauges are read on request. */
export interface BrokerStats {
  /** The statistics of a route; beyond `maxRoutes` all other routes share one entry, `overflow`. */
  route(name: string): RouteStats
  routes(): readonly (readonly [name: string, stats: RouteStats])[]
  /** Counts a call that was rejected, or ended, with a gRPC error. */
  failed(call: 'push' | 'pull' | 'admin', status: string): void
  /** Counts by `push.` or `pull.` and the status. */
  failures(): readonly (readonly [name: string, count: number])[]
  gauge(name: GaugeName, read: () => number): void
  gauges(): readonly (readonly [name: GaugeName, value: number])[]
}

export type GaugeName =
  | 'streams.active'
  | 'producers.active'
  | 'consumers.active'
  | 'queue.messages'
  | 'queue.bytes'
  | 'notifications.queued'
  | 'log.healthy'
  | 'backend.failing'
  | 'process.resident_bytes'

const maxRoutes = 200
export const overflowRoute = 'overflow'

export function createBrokerStats(): BrokerStats {
  const routes = new Map<string, RouteStats>()
  const failures = new Map<string, number>()
  const gauges = new Map<GaugeName, () => number>()

  function add(name: string): RouteStats {
    const stats = createRouteStats()
    routes.set(name, stats)
    return stats
  }

  return {
    route(name) {
      const known = routes.get(name)
      if (known !== undefined) return known
      if (routes.size < maxRoutes) return add(name)
      return routes.get(overflowRoute) ?? add(overflowRoute)
    },
    routes: () => [...routes],
    failed(call, status) {
      const name = `${call}.${status}`
      failures.set(name, (failures.get(name) ?? 0) + 1)
    },
    failures: () => [...failures],
    gauge(name, read) {
      gauges.set(name, read)
    },
    gauges: () => Array.from(gauges, ([name, read]) => [name, read()] as const),
  }
}

function createRouteStats(): RouteStats {
  const zeros = <Name extends string>(names: readonly Name[]) =>
    Object.fromEntries(names.map(name => [name, 0])) as Record<Name, number>
  const histograms = Object.fromEntries(histogramNames.map(name => [name, new BoundedHistogram(boundsMs)]))
  return {
    counters: zeros(counterNames),
    violations: zeros(ruleNames),
    histograms: histograms as Record<HistogramName, BoundedHistogram>,
  }
}
