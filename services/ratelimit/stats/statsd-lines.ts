import { type Change, createChanges } from './changes.ts'
import { bucketMiddleMs } from './histogram.ts'
import { splitOwnTags } from './own-tags.ts'
import type { Stats } from './stats.ts'

/** How a series is written in a line: what stands before `:value|type`, and what stands after it. */
export interface LineParts {
  readonly head: string
  readonly tail: string
}

/** A way to write names and tags, given a name as statistics are kept under. */
export type Dialect = (name: string) => LineParts

/**
 * Tags in the reference's form for statsd, `name.__tag=value`, sorted by tag. Those without a name or a value
 * are left out, as there.
 */
export function statsdDialect(extraTags: ReadonlyMap<string, string>): Dialect {
  const extra = tagsOf(extraTags)
  const suffix = suffixOf(extra)
  return statName => {
    const { name, tags } = splitOwnTags(statName)
    const own = tags.length === 0 ? suffix : suffixOf([...extra, ...tags].sort(byName))
    return { head: `${lineName(name)}${own}`, tail: '' }
  }
}

type Tag = readonly [name: string, value: string]

const suffixOf = (tags: readonly Tag[]) => tags.map(([name, value]) => `.__${name}=${value}`).join('')
const byName = ([a]: Tag, [b]: Tag) => (a < b ? -1 : 1)

/** Tags that every series has, sorted by name and with the reference's changes to their values. */
export function tagsOf(extraTags: ReadonlyMap<string, string>): readonly Tag[] {
  return [...extraTags]
    .filter(([name, value]) => name !== '' && value !== '')
    .map(([name, value]) => [tagText(name), tagText(value).replaceAll('.', '_')] as const)
    .sort(byName)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not stand in a line.
const unfitForName = /[\x00-\x1f\x7f:|]|\.(?=__)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not stand in a line.
const unfitForTag = /[\x00-\x1f\x7f:|,]/g

/**
 * A name as it may stand in a line. It can hold what a caller sent, which must neither begin another line or
 * field nor look like a tag.
 */
export function lineName(name: string): string {
  return name.replace(unfitForName, '_')
}

/** The name or the value of a tag as it may stand in a line. */
export function tagText(text: string): string {
  return text.replace(unfitForTag, '_')
}

/**
 * Durations of one bucket go as one value with a sample rate of 1/n, which receivers count n times; so the
 * lines of a flush are as many as the buckets that changed, not as the calls. A larger n is divided: its rate
 * would be written with an exponent, which some receivers do not read.
 */
const maxTimesOfLine = 100_000

/** Answers a function that yields the lines of one flush, without their ends. */
export function createStatsdLines(stats: Stats, dialect: Dialect): () => Generator<string, undefined> {
  const pass = createChanges(stats)
  return function* lines() {
    for (const change of pass()) {
      const { head, tail } = dialect(change.name)
      if (change.kind === 'timer') {
        for (const value of timerValues(change.counts)) yield `${head}:${value}${tail}`
      } else {
        const value = plainValue(change)
        if (value !== undefined) yield `${head}:${value}${tail}`
      }
    }
    return undefined
  }
}

/** A gauge with a sign would change the last value instead of replacing it, so that none is below 0. */
function plainValue(change: Exclude<Change, { kind: 'timer' }>): string | undefined {
  if (change.kind === 'counter') return `${change.added}|c`
  return Number.isFinite(change.value) ? `${Math.max(0, change.value)}|g` : undefined
}

function* timerValues(counts: Float64Array): Generator<string> {
  for (const [bucket, count] of counts.entries()) {
    const ms = bucketMiddleMs(bucket)
    for (let left = count; left > 0; left -= maxTimesOfLine) {
      const times = Math.min(left, maxTimesOfLine)
      yield times === 1 ? `${ms}|ms` : `${ms}|ms|@${rateOf(times)}`
    }
  }
}

/** Receivers divide 1 by it and cut what is behind the point off, so it is a trace too small. */
function rateOf(times: number): number {
  return 1 / (times * (1 + 1e-12))
}

/** Whole lines that go together; `lines` is their number. */
export interface Packet {
  readonly text: string
  readonly lines: number
}

/** Joins lines to packets of at most `maxBytes`; `onTooLong` is told of each line that fits in none. */
export function* packLines(
  lines: Iterable<string>,
  maxBytes: number,
  onTooLong: () => void,
): Generator<Packet, undefined> {
  let text = ''
  let bytes = 0
  let count = 0
  for (const line of lines) {
    const lineBytes = Buffer.byteLength(line) + 1
    if (lineBytes > maxBytes) {
      onTooLong()
      continue
    }
    if (bytes + lineBytes > maxBytes) {
      yield { text, lines: count }
      text = ''
      bytes = 0
      count = 0
    }
    text += `${line}\n`
    bytes += lineBytes
    count += 1
  }
  if (count > 0) yield { text, lines: count }
  return undefined
}
