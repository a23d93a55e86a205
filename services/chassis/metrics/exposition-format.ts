/** Prometheus' text format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Returns labels without braces: `a="1",b="2"`. */
export function labelsText(labels: Iterable<readonly [name: string, value: string]>): string {
  return Array.from(labels, ([name, value]) => `${name}="${escapeLabelValue(value)}"`).join(',')
}

/** Escapes a value, which may come from a caller and contain any character. */
function escapeLabelValue(value: string): string {
  return value
    .toWellFormed()
    .replace(/[\\"\n]/g, character => (character === '\n' ? '\\n' : `\\${character}`))
}

/** Returns the HELP and TYPE lines before the samples of a metric. */
export function headerLines(name: string, type: string, help: string): string {
  const escaped = help.toWellFormed().replace(/[\\\n]/g, found => (found === '\n' ? '\\n' : '\\\\'))
  return `# HELP ${name} ${escaped}\n${typeLine(name, type)}`
}

/** Returns the only line before the samples of a metric without a help text. */
export function typeLine(name: string, type: string): string {
  return `# TYPE ${name} ${type}\n`
}

/** @param labels a result of `labelsText` */
export function sampleName(name: string, labels: string): string {
  return labels === '' ? name : `${name}{${labels}}`
}

/** @param labels a result of `labelsText` */
export function sampleLine(name: string, labels: string, value: number): string {
  return `${sampleName(name, labels)} ${numberText(value)}\n`
}

/** What Prometheus expects of a histogram. */
interface HistogramNumbers {
  /** Ascending upper bounds, without the infinite one. */
  readonly bounds: readonly number[]
  /** The number of values at or below each bound. */
  readonly atMost: readonly number[]
  readonly count: number
  readonly sum: number
}

/** @param labels a result of `labelsText` */
export function* histogramSamples(
  name: string,
  labels: string,
  { bounds, atMost, count, sum }: HistogramNumbers,
): Generator<readonly [sample: string, value: number], undefined> {
  const before = labels === '' ? '' : `${labels},`
  for (const [index, bound] of bounds.entries()) {
    yield [sampleName(`${name}_bucket`, `${before}le="${bound}"`), atMost[index] ?? 0]
  }
  yield [sampleName(`${name}_bucket`, `${before}le="+Inf"`), count]
  yield [sampleName(`${name}_sum`, labels), sum]
  yield [sampleName(`${name}_count`, labels), count]
  return undefined
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
