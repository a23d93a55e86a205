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
  /** Changes the rate, without a pause. */
  setRate(callsPerSecond: number): void
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
  let spacingMs = (1000 * callers) / callsPerSecond
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
    setRate(rate) {
      spacingMs = (1000 * callers) / rate
    },
    async stop() {
      stopped = true
      await Promise.all(running)
      agent.destroy()
    },
  }
}

const sampleMs = 250
/** What a window of five seconds takes if the process stood still in it. */
const stalledWindowMs = 5_500

/** What several loads together were admitted, four times a second. */
export class Admissions {
  readonly #loads: readonly Load[]
  readonly #limitPerSecond: number
  readonly #samples: { readonly atMs: number; readonly admitted: number }[] = []
  readonly #sampling: NodeJS.Timeout

  constructor(loads: readonly Load[], limitPerSecond: number) {
    this.#loads = loads
    this.#limitPerSecond = limitPerSecond
    this.#sampling = setInterval(() => this.#sample(), sampleMs)
  }

  #sample(): void {
    const admitted = this.#loads.reduce((sum, { codes }) => sum + (codes.get(200) ?? 0), 0)
    this.#samples.push({ atMs: performance.now(), admitted })
  }

  stop(): void {
    clearInterval(this.#sampling)
  }

  /** What was admitted a second in the last time; infinite before that time has passed. */
  rate(windowMs: number): number {
    const last = this.#samples.at(-1)
    const first = this.#samples.at(-1 - windowMs / sampleMs)
    if (last === undefined || first === undefined) return Number.POSITIVE_INFINITY
    return ((last.admitted - first.admitted) * 1000) / (last.atMs - first.atMs)
  }

  /** Returns the most that any window in that time admitted beyond the limit. */
  mostBeyond(sinceMs: number, untilMs = Number.POSITIVE_INFINITY): number {
    let lowest = Number.POSITIVE_INFINITY
    let most = 0
    // The greatest rise of what is admitted beyond the limit, from any sample to a later one.
    for (const { atMs, admitted } of this.#since(sinceMs)) {
      if (atMs > untilMs) break
      const beyond = admitted - (atMs * this.#limitPerSecond) / 1000
      lowest = Math.min(lowest, beyond)
      most = Math.max(most, beyond - lowest)
    }
    return most
  }

  /**
   * Returns the milliseconds after which each window of five seconds admitted at least so many a second. What begins in
   * a stall of this process does not count.
   */
  steadyAfter(sinceMs: number, leastPerSecond: number): number {
    const samples = this.#since(sinceMs)
    const step = 5_000 / sampleMs
    let after = 0
    for (const [nth, first] of samples.entries()) {
      const last = samples[nth + step]
      if (last === undefined) break
      const ms = last.atMs - first.atMs
      const admitted = last.admitted - first.admitted
      if (ms < stalledWindowMs && admitted < (ms * leastPerSecond) / 1000) {
        after = (samples[nth + 1]?.atMs ?? last.atMs) - sinceMs
      }
    }
    return after
  }

  /** Returns for how long this process, which also makes the calls, stood still. */
  stalledMs(sinceMs: number): number {
    const samples = this.#since(sinceMs)
    const gaps = samples.slice(1).map(({ atMs }, nth) => atMs - (samples[nth]?.atMs ?? atMs) - sampleMs)
    return gaps.filter(gap => gap > sampleMs).reduce((sum, gap) => sum + gap, 0)
  }

  /** What was admitted a second in each period of about five seconds. */
  history(sinceMs: number): string {
    const step = 5_000 / sampleMs
    const ends = this.#since(sinceMs).filter((_, nth) => nth % step === 0)
    const rates = ends.slice(1).map(({ atMs, admitted }, nth) => {
      const begin = ends[nth] ?? { atMs, admitted }
      return ((admitted - begin.admitted) * 1000) / (atMs - begin.atMs)
    })
    return rates.map(rate => rate.toFixed(0)).join(' ')
  }

  #since(sinceMs: number) {
    return this.#samples.filter(({ atMs }) => atMs >= sinceMs)
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
