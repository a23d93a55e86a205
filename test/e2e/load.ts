import { setTimeout as pause } from 'node:timers/promises'

export interface Load {
  /** The number of answers by status code; 0 is the code of calls without an answer. */
  readonly codes: ReadonlyMap<number, number>
  /** The calls that took at least `lateMs`. */
  readonly late: readonly Period[]
  /** Ends the load; resolves when the last call was answered. */
  stop(): Promise<void>
}

/** The begin and the end of a call, in milliseconds. */
export interface Period {
  readonly beginMs: number
  readonly endMs: number
}

/** Sends sequential calls on each of `connections`, at this rate in total. */
export function startLoad(
  url: string,
  { user = '', callers = 8, callsPerSecond = 200, lateMs = Number.POSITIVE_INFINITY } = {},
): Load {
  const codes = new Map<number, number>()
  const late: Period[] = []
  const spacingMs = (1000 * callers) / callsPerSecond
  let stopped = false

  async function call(): Promise<number> {
    try {
      const headers = user === '' ? {} : { 'x-user': user }
      const response = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) })
      await response.arrayBuffer()
      return response.status
    } catch {
      return 0
    }
  }

  async function caller(): Promise<void> {
    while (!stopped) {
      const beginMs = performance.now()
      const code = await call()
      const endMs = performance.now()
      if (endMs - beginMs >= lateMs) late.push({ beginMs, endMs })
      codes.set(code, (codes.get(code) ?? 0) + 1)
      await pause(Math.max(0, beginMs + spacingMs - performance.now()))
    }
  }

  const running = Array.from({ length: callers }, caller)
  return {
    codes,
    late,
    async stop() {
      stopped = true
      await Promise.all(running)
    },
  }
}

/** `200: 31, 429: 4`. */
export function describeCodes(codes: ReadonlyMap<number, number>): string {
  return [...codes].map(([code, count]) => `${code}: ${count}`).join(', ')
}

/** Returns how many of the periods overlap one of the others. */
export function overlapping(periods: readonly Period[], others: readonly Period[]): number {
  return periods.filter(({ beginMs, endMs }) =>
    others.some(other => other.beginMs <= endMs && beginMs <= other.endMs),
  ).length
}
