import type { Stats } from './stats.ts'

/**
 * Writes what changed since the last time, one JSON object a line: `{"name":…,"type":"counter","value":…}`. A
 * counter's value is what was added since then, a gauge's is what it is.
 */
export function createLogSink(stats: Stats, write: (line: string) => void): { flush(): void } {
  const last = new Map<string, number>()
  return {
    flush() {
      for (const { name, kind, value } of stats.entries()) {
        const before = last.get(name)
        if (before === value || (before === undefined && value === 0)) continue
        last.set(name, value)
        const shown = kind === 'counter' ? value - (before ?? 0) : value
        write(`${JSON.stringify({ name, type: kind, value: shown })}\n`)
      }
    },
  }
}
