import { setTimeout as pause } from 'node:timers/promises'

export interface Load {
  /** How many answers had each status code; 0 stands for calls that got none. */
  readonly codes: ReadonlyMap<number, number>
  /** Ends it; resolves when the last call was answered. */
  stop(): Promise<void>
}

/** Calls all the time, one after the other on so many connections, at this rate in all. */
export function startLoad(url: string, { user = '', callers = 8, callsPerSecond = 200 } = {}): Load {
  const codes = new Map<number, number>()
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
      codes.set(code, (codes.get(code) ?? 0) + 1)
      await pause(Math.max(0, beginMs + spacingMs - performance.now()))
    }
  }

  const running = Array.from({ length: callers }, caller)
  return {
    codes,
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
