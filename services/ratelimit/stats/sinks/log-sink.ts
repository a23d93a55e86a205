import { quantileMs } from '@tollway/chassis/metrics/histogram.ts'
import { createChanges, type SeriesChange } from '../changes.ts'
import type { Stats } from '../stats.ts'
import { type Sink, splitOwnTags } from './sink.ts'

/** Lines are joined to writes of about this size, because each write is a system call. */
const writeCharacters = 64 * 1024

/**
 * Writes the changes since the last flush, one JSON object per line: `{"name":…,"type":"counter","value":…}`.
 * The value of a counter is the increase, the value of a gauge the current one. A timer has the count, the
 * median and the 99th percentile in milliseconds of the added durations. A line for a statistic with tags has
 * them as `"tags":{…}`.
 */
export function createLogSink(
  stats: Stats,
  write: (text: string) => void,
  extraTags: ReadonlyMap<string, string> = new Map(),
): Sink {
  const pass = createChanges(stats)
  const described = (statName: string) => {
    const { name, tags } = splitOwnTags(statName)
    const all = [...extraTags, ...tags]
    return all.length === 0 ? { name } : { name, tags: Object.fromEntries(all) }
  }
  const gauges = new Map<string, number>()
  let stopped = false
  const changed = (change: SeriesChange) => {
    if (change.kind !== 'gauge') return true
    const before = gauges.get(change.name) ?? 0
    gauges.set(change.name, change.value)
    return before !== change.value
  }
  const flush = () => {
    if (stopped) return
    let text = ''
    for (const change of pass()) {
      if (changed(change)) text += `${JSON.stringify({ ...described(change.name), ...toFields(change) })}\n`
      if (text.length < writeCharacters) continue
      write(text)
      text = ''
    }
    if (text !== '') write(text)
  }
  return {
    flush,
    async stop() {
      flush()
      stopped = true
    },
  }
}

function toFields(change: SeriesChange) {
  const { kind: type } = change
  if (change.kind === 'counter') return { type, value: change.added }
  if (change.kind === 'gauge') return { type, value: change.value }
  const { counts } = change
  const count = counts.reduce((sum, some) => sum + some, 0)
  return { type, count, p50_ms: quantileMs(counts, 0.5), p99_ms: quantileMs(counts, 0.99) }
}
