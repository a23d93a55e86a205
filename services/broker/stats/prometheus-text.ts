import {
  histogramSamples,
  labelsText,
  sampleLine,
  typeLine,
} from '@tollway/chassis/metrics/exposition-format.ts'
import { type BrokerStats, counterNames, histogramNames, type RouteStats } from './broker-stats.ts'

/**
 * Every statistic under its dotted name: the sums of all routes, then those of each route. Sorted by name.
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
    for (const [name, value] of numbersOf(routeStats)) {
      add(`broker.${name}`, value)
      add(`broker.route.${routeLabel(route)}.${name}`, value)
    }
  }
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Requests without a matching route have an empty route name. */
const routeLabel = (name: string) => name || 'default'

function* numbersOf({ counters, violations, histograms }: RouteStats): Generator<readonly [string, number]> {
  yield* Object.entries(counters)
  for (const [rule, count] of Object.entries(violations)) yield [`violations.${rule}`, count]
  for (const [name, histogram] of Object.entries(histograms)) {
    yield [`${name}.count`, histogram.count]
    yield [`${name}.sum`, histogram.sum]
  }
}

const prefix = 'tollway_broker_'

/** All statistics in Prometheus' text format. */
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
