/** The media type of Prometheus' text format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Formats labels for a sample line, without braces: `a="1",b="2"`. A label without a value is left out. */
export function labelsText(labels: Iterable<readonly [name: string, value: string]>): string {
  return [...labels]
    .filter(([, value]) => value !== '')
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${escapeLabelValue(value)}"`)
    .join(',')
}

/** A label's value may come from a caller, so it is escaped. */
function escapeLabelValue(value: string): string {
  return value
    .toWellFormed()
    .replace(/[\\"\n]/g, character => (character === '\n' ? '\\n' : `\\${character}`))
}

/** Converts any text to a metric's name, as the reference does: invalid characters become `_`. */
export function metricName(text: string): string {
  const name = text.replace(/[^a-zA-Z0-9_]/g, '_')
  return /^[0-9]/.test(name) ? `_${name}` : name
}

/** Returns the lines before the samples of a metric. */
export function headerLines(name: string, type: string, help: string): string {
  const escaped = help.toWellFormed().replace(/[\\\n]/g, found => (found === '\n' ? '\\n' : '\\\\'))
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`
}

/** Returns one sample, with labels from `labelsText`. */
export function sampleLine(name: string, labels: string, value: number): string {
  return `${name}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}\n`
}

/** Formats a number. */
export function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
