import { type BrokerStats, counterNames, histogramNames, type RouteStats } from './broker-stats.ts'
import { boundsMs } from './histogram.ts'

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

/** The media type of Prometheus' text format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

const prefix = 'tollway_broker_'

/** All statistics in Prometheus' text format. */
export function exposition(stats: BrokerStats): string {
  const text: string[] = []
  for (const [name, value] of stats.gauges()) {
    text.push(typeLine(metricName(name), 'gauge'), sample(metricName(name), {}, value))
  }
  text.push(typeLine('errors_total', 'counter'))
  for (const [name, count] of stats.failures()) {
    const [call = '', status = ''] = name.split('.')
    text.push(sample('errors_total', { call, status }, count))
  }
  const routes = stats.routes().map(([name, routeStats]) => [routeLabel(name), routeStats] as const)
  for (const name of counterNames) {
    text.push(typeLine(`${name}_total`, 'counter'))
    for (const [route, { counters }] of routes) text.push(sample(`${name}_total`, { route }, counters[name]))
  }
  text.push(typeLine('violations_total', 'counter'))
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
  const text = [typeLine(name, 'histogram')]
  for (const [route, { histograms }] of routes) {
    const histogram = histograms[name]
    for (const [index, count] of histogram.cumulative().entries()) {
      const bound = boundsMs[index]
      text.push(sample(`${name}_bucket`, { route, le: bound === undefined ? '+Inf' : String(bound) }, count))
    }
    text.push(sample(`${name}_sum`, { route }, histogram.sum))
    text.push(sample(`${name}_count`, { route }, histogram.count))
  }
  return text
}

const metricName = (name: string) => name.replaceAll('.', '_')
const typeLine = (name: string, type: string) => `# TYPE ${prefix}${name} ${type}\n`

function sample(name: string, labels: Readonly<Record<string, string>>, value: number): string {
  const text = Object.entries(labels)
    .map(([label, of]) => `${label}="${escapeLabel(of)}"`)
    .join(',')
  return `${prefix}${name}${text === '' ? '' : `{${text}}`} ${value}\n`
}

function escapeLabel(value: string): string {
  return value
    .toWellFormed()
    .replace(/[\\"\n]/g, character => (character === '\n' ? '\\n' : `\\${character}`))
}
