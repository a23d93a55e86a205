import { bucketMiddleMs } from '@tollway/chassis/metrics/histogram.ts'
import { createChanges, type SeriesChange } from '../changes.ts'
import { type Mogrifier, mogrify } from '../mapping/mogrifiers.ts'
import type { Stats } from '../stats.ts'
import { splitOwnTags } from './sink.ts'

/** The parts of a line before and after `:value|type`. */
interface LineParts {
  readonly head: string
  readonly tail: string
}

export type Dialect = (name: string) => LineParts

/**
 * Appends tags to the name in the form of envoyproxy/ratelimit for statsd, `name.__tag=value`, sorted by tag.
 * Tags without a name or a value are left out, as in envoyproxy/ratelimit.
 */
export function statsdDialect(extraTags: ReadonlyMap<string, string>): Dialect {
  const extra = toTags(extraTags)
  const suffix = formatSuffix(extra)
  return statName => {
    const { name, tags } = splitOwnTags(statName)
    const own = tags.length === 0 ? suffix : formatSuffix([...extra, ...tags].sort(byName))
    return { head: `${lineName(name)}${own}`, tail: '' }
  }
}

type Tag = readonly [name: string, value: string]

const formatSuffix = (tags: readonly Tag[]) => tags.map(([name, value]) => `.__${name}=${value}`).join('')
const byName = ([a]: Tag, [b]: Tag) => (a < b ? -1 : 1)

/**
 * Returns the tags that every series has, sorted by name. As in envoyproxy/ratelimit, characters that a tag
 * must not contain, and dots in a value, become `_`.
 */
function toTags(extraTags: ReadonlyMap<string, string>): readonly Tag[] {
  return [...extraTags]
    .filter(([name, value]) => name !== '' && value !== '')
    .map(([name, value]) => [tagText(name), tagText(value).replaceAll('.', '_')] as const)
    .sort(byName)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: a line must not contain them.
const forbiddenInName = /[\x00-\x1f\x7f:|]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: a line must not contain them.
const forbiddenInTag = /[\x00-\x1f\x7f:|,]/g

/**
 * Escapes a name for a line. The name may contain values from callers, which must neither begin another line
 * or field nor look like a tag. Receivers, like gostats, take `.__` for the beginning of a tag if a `=`
 * follows. Other names with `.__`, such as those of keys that begin with `__`, are the same as in
 * envoyproxy/ratelimit.
 */
function lineName(name: string): string {
  const line = name.replace(forbiddenInName, '_')
  if (!line.includes('.__')) return line
  // Every dot of `..__` and `._.__` is replaced: a dot that is left would begin a tag together with the
  // underscores.
  return line.replace(/[._]+(?=.*=)/gs, run => (run.includes('.__') ? run.replaceAll('.', '_') : run))
}

function tagText(text: string): string {
  return text.replace(forbiddenInTag, '_')
}

/**
 * A line stands for at most this many durations. The durations of one bucket are sent as one value with a
 * sample rate of 1/n, which receivers count n times: a flush then has a line for each changed bucket and not
 * for each call. The rate of a larger n would be written with an exponent, which some receivers do not parse.
 */
const maxTimesOfLine = 100_000

/** Returns a function that yields the lines of one flush, without line ends. */
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

/**
 * Returns the value and the type; undefined for a gauge that is not finite. A gauge below 0 is sent as 0,
 * because receivers take a value with a sign as a change of the last value.
 */
function plainValue(change: Exclude<SeriesChange, { kind: 'timer' }>): string | undefined {
  if (change.kind === 'counter') return `${change.added}|c`
  return Number.isFinite(change.value) ? `${Math.max(0, change.value)}|g` : undefined
}

function* timerValues(counts: Float64Array): Generator<string> {
  for (const [bucket, count] of counts.entries()) {
    const ms = bucketMiddleMs(bucket)
    for (let left = count; left > 0; left -= maxTimesOfLine) {
      const times = Math.min(left, maxTimesOfLine)
      yield times === 1 ? `${ms}|ms` : `${ms}|ms|@${toSampleRate(times)}`
    }
  }
}

/** Returns a rate slightly below 1/times: receivers divide 1 by the rate and truncate the result. */
function toSampleRate(times: number): number {
  return 1 / (times * (1 + 1e-12))
}

/** Whole lines that are sent together; `lines` is their number. */
export interface Packet {
  readonly text: string
  readonly lines: number
}

/** Joins lines to packets of at most `maxBytes`; calls `onTooLong` for each line that fits in none. */
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

/**
 * Writes tags for the DogStatsD agent: `name:value|type|#tag:value,tag:value`. The tags of EXTRA_TAGS come
 * first, then those of the statistic, then those of the mogrifiers.
 */
export function dogstatsdDialect(
  extraTags: ReadonlyMap<string, string>,
  mogrifiers: readonly Mogrifier[],
): Dialect {
  const extra = toTags(extraTags).map(([name, value]) => `${name}:${value}`)
  return statName => {
    const own = splitOwnTags(statName)
    const { name, tags } = mogrify(mogrifiers, own.name)
    const all = [
      ...extra,
      ...[...own.tags, ...tags].map(([tag, value]) => `${tagText(tag)}:${tagText(value)}`),
    ]
    return { head: lineName(name), tail: all.length === 0 ? '' : `|#${all.join(',')}` }
  }
}
