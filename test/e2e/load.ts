import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

export interface Load {
  /** The number of answers by status code; 0 is the code of calls without an answer. */
  readonly codes: ReadonlyMap<number, number>
  /** The calls that took at least `lateMs`. */
  readonly late: readonly Period[]
  /** The calls without an answer. */
  readonly failed: readonly Period[]
  /** Ends the load; resolves when the last call was answered. */
  stop(): Promise<void>
}

/** The begin and the end of a call, in milliseconds. */
export interface Period {
  readonly beginMs: number
  readonly endMs: number
}

/**
 * Sends sequential calls on each of the callers' connections, or each call on a new one, at this rate in
 * total. It uses node:http, since fetch takes more than twice the CPU time, and the tested pods run on the
 * same machine.
 */
export function startLoad(
  url: string,
  { user = '', callers = 8, callsPerSecond = 200, lateMs = Number.POSITIVE_INFINITY, keepAlive = true } = {},
): Load {
  const codes = new Map<number, number>()
  const late: Period[] = []
  const failed: Period[] = []
  const spacingMs = (1000 * callers) / callsPerSecond
  const agent = new Agent({ keepAlive, maxSockets: callers })
  const headers = user === '' ? {} : { 'x-user': user }
  let stopped = false

  async function call(): Promise<number> {
    try {
      const sent = get(url, { agent, headers, timeout: 10_000 })
      sent.on('timeout', () => sent.destroy()).on('error', () => {})
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      await once(response.resume(), 'end')
      return response.statusCode ?? 0
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
      if (code === 0) failed.push({ beginMs, endMs })
      codes.set(code, (codes.get(code) ?? 0) + 1)
      await pause(Math.max(0, beginMs + spacingMs - performance.now()))
    }
  }

  const running = Array.from({ length: callers }, caller)
  return {
    codes,
    late,
    failed,
    async stop() {
      stopped = true
      await Promise.all(running)
      agent.destroy()
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
