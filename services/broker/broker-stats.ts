import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import { BoundedHistogram } from '@tollway/chassis/metrics/bounded-histogram.ts'
import {
  histogramSamples,
  labelsText,
  sampleLine,
  typeLine,
} from '@tollway/chassis/metrics/exposition-format.ts'
import { type RuleName, ruleNames } from './stream-rules.ts'
import type { DataMessage } from './wire/message.ts'

/** Each route has these counters, which only increase. */
const counterNames = [
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
type CounterName = (typeof counterNames)[number]

/** Each route has these histograms, in milliseconds. */
const histogramNames = ['time_to_first_message_ms', 'lag_ms', 'audio_animation_skew_ms'] as const

/** The bounds range from an imperceptible delay to a broken stream. */
const boundsMs: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000,
]
type HistogramName = (typeof histogramNames)[number]

export interface RouteStats {
  readonly counters: Record<CounterName, number>
  readonly violations: Record<RuleName, number>
  readonly histograms: Readonly<Record<HistogramName, BoundedHistogram>>
}

type GaugeName =
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
const overflowRoute = 'overflow'

/** The statistics of one broker. Gauges are read on request. */
export class BrokerStats {
  readonly #routes = new Map<string, RouteStats>()
  readonly #failures = new Map<string, number>()
  readonly #gauges = new Map<GaugeName, () => number>()

  /** After `maxRoutes` routes, all further ones share the entry `overflow`. */
  route(name: string): RouteStats {
    const known = this.#routes.get(name)
    if (known !== undefined) return known
    return getOrAdd(this.#routes, this.#routes.size < maxRoutes ? name : overflowRoute, createRouteStats)
  }

  routes(): readonly (readonly [name: string, stats: RouteStats])[] {
    return [...this.#routes]
  }

  /** Counts a call that was rejected, or ended, with a gRPC error. */
  failed(call: 'push' | 'pull' | 'admin', status: string): void {
    const name = `${call}.${status}`
    this.#failures.set(name, (this.#failures.get(name) ?? 0) + 1)
  }

  /** The counts by call and status, such as `push.UNAVAILABLE`. */
  failures(): readonly (readonly [name: string, count: number])[] {
    return [...this.#failures]
  }

  gauge(name: GaugeName, read: () => number): void {
    this.#gauges.set(name, read)
  }

  gauges(): readonly (readonly [name: GaugeName, value: number])[] {
    return Array.from(this.#gauges, ([name, read]) => [name, read()] as const)
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

/**
 * Returns every statistic by its dotted name, sorted: the sums of all routes, and the values of each route.
 */
export function statEntries(stats: BrokerStats): readonly (readonly [name: string, value: number])[] {
  const entries = new Map<string, number>()
  const add = (name: string, value: number) => entries.set(name, (entries.get(name) ?? 0) + value)
  for (const [name, value] of stats.gauges()) add(`broker.${name}`, value)
  for (const [name, count] of stats.failures()) add(`broker.errors.${name}`, count)
  for (const name of [...counterNames, ...histogramNames.map(name => `${name}.count`)]) {
    add(`broker.${name}`, 0)
  }
  for (const [route, routeStats] of stats.routes()) {
    for (const [name, value] of listValues(routeStats)) {
      add(`broker.${name}`, value)
      add(`broker.route.${routeLabel(route)}.${name}`, value)
    }
  }
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Returns the name of a route in metrics: requests without a matching route have an empty name. */
const routeLabel = (name: string) => name || 'default'

function* listValues({ counters, violations, histograms }: RouteStats): Generator<readonly [string, number]> {
  yield* Object.entries(counters)
  for (const [rule, count] of Object.entries(violations)) yield [`violations.${rule}`, count]
  for (const [name, histogram] of Object.entries(histograms)) {
    yield [`${name}.count`, histogram.count]
    yield [`${name}.sum`, histogram.sum]
  }
}

const prefix = 'tollway_broker_'

/** Returns the statistics in Prometheus' text format. */
export function exposition(stats: BrokerStats): string {
  const text: string[] = []
  for (const [name, value] of stats.gauges()) {
    text.push(header(metricName(name), 'gauge'), sample(metricName(name), {}, value))
  }
  text.push(header('errors_total', 'counter'))
  for (const [name, count] of stats.failures()) {
    const [call = '', status = ''] = name.split('.')
    text.push(sample('errors_total', { call, status }, count))
  }
  const routes = stats.routes().map(([name, routeStats]) => [routeLabel(name), routeStats] as const)
  for (const name of counterNames) {
    text.push(header(`${name}_total`, 'counter'))
    for (const [route, { counters }] of routes) text.push(sample(`${name}_total`, { route }, counters[name]))
  }
  text.push(header('violations_total', 'counter'))
  for (const [route, { violations }] of routes) {
    for (const [rule, count] of Object.entries(violations)) {
      text.push(sample('violations_total', { route, rule }, count))
    }
  }
  for (const name of histogramNames) text.push(...histogramLines(name, routes))
  return text.join('')
}

function histogramLines(
  name: (typeof histogramNames)[number],
  routes: readonly (readonly [string, RouteStats])[],
): readonly string[] {
  const text = [header(name, 'histogram')]
  for (const [route, { histograms }] of routes) {
    const histogram = histograms[name]
    const { bounds, count, sum } = histogram
    const numbers = { bounds, atMost: histogram.atMost(), count, sum }
    for (const [sample, value] of histogramSamples(prefix + name, labelsText([['route', route]]), numbers)) {
      text.push(sampleLine(sample, '', value))
    }
  }
  return text
}

const metricName = (name: string) => name.replaceAll('.', '_')
const header = (name: string, type: string) => typeLine(prefix + name, type)

function sample(name: string, labels: Readonly<Record<string, string>>, value: number): string {
  return sampleLine(prefix + name, labelsText(Object.entries(labels)), value)
}

/**
 * Measures the delay of messages relative to the start time in the header, and the skew between audio and
 * animation.
 */
export class MediaTiming {
  readonly #histograms: RouteStats['histograms']
  readonly #startMs: number
  #audio: number | undefined
  #animation: number | undefined

  /** @param startTimeCode in seconds since the epoch; 0 if the producer sets none */
  constructor(startTimeCode: number, { histograms }: RouteStats) {
    this.#histograms = histograms
    this.#startMs = startTimeCode > 0 ? startTimeCode * 1000 : Number.NaN
  }

  measure({ skelAnimation, audio, camera }: DataMessage, nowMs: number): void {
    const latest = skelAnimation?.latest ?? audio?.timeCode ?? camera?.latest
    if (latest !== undefined && Number.isFinite(this.#startMs)) {
      this.#histograms.lag_ms.record(Math.max(0, nowMs - this.#startMs - latest * 1000))
    }
    this.#audio = audio?.timeCode ?? this.#audio
    this.#animation = skelAnimation?.earliest ?? this.#animation
    if (this.#audio === undefined || this.#animation === undefined) return
    this.#histograms.audio_animation_skew_ms.record(Math.abs(this.#audio - this.#animation) * 1000)
  }
}
