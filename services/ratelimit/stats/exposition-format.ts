/** The media type of Prometheus' text format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Labels as a sample line has them, without braces: `a="1",b="2"`. One without a value is no label. */
export function labelsText(labels: Iterable<readonly [name: string, value: string]>): string {
  return [...labels]
    .filter(([, value]) => value !== '')
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}="${escapeLabelValue(value)}"`)
    .join(',')
}

/** A label's value can be what a caller sent: nothing in it may end it early. */
function escapeLabelValue(value: string): string {
  return value
    .toWellFormed()
    .replace(/[\\"\n]/g, character => (character === '\n' ? '\\n' : `\\${character}`))
}

/** A metric's name from any text, as the reference makes it: what is not allowed becomes `_`. */
export function metricName(text: string): string {
  const name = text.replace(/[^a-zA-Z0-9_]/g, '_')
  return /^[0-9]/.test(name) ? `_${name}` : name
}

/** The lines that go before the samples of a metric. */
export function headerLines(name: string, type: string, help: string): string {
  const escaped = help.toWellFormed().replace(/[\\\n]/g, found => (found === '\n' ? '\\n' : '\\\\'))
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`
}

/** One sample, with its labels as `labelsText` writes them. */
export function sampleLine(name: string, labels: string, value: number): string {
  return `${name}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}\n`
}

/** A number as the format has it. */
export function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
