import { readFileSync } from 'node:fs'
import { get } from 'node:http'
import type { RateLimitResponse } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { callRateLimit, type RateLimitProcess } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import type { OperatorProcess } from './bulk-cluster.ts'

/** What one operator was like over a while. */
export interface OperatorFigures {
  /** How long `/healthz` took, in milliseconds, in rising order. */
  readonly healthMs: readonly number[]
  readonly maxRssMiB: number
  /** How late its event loop was, in milliseconds, by its own measure. */
  readonly lagMs: { readonly p99: number; readonly max: number }
}

const healthEveryMs = 25

/**
 * Asks for `/healthz` at a fixed rate, each time on a connection of its own as a kubelet does, whether
 * earlier answers came or not, and reads the resident memory.
 */
export function watchOperator({ program, port }: OperatorProcess): { stop(): Promise<OperatorFigures> } {
  const waiting = new Set<number>()
  const healthMs: number[] = []
  let maxRssMiB = 0
  const ask = () => {
    const beginMs = performance.now()
    waiting.add(beginMs)
    const end = () => {
      if (waiting.delete(beginMs)) healthMs.push(performance.now() - beginMs)
    }
    const at = { host: '127.0.0.1', port, path: '/healthz', agent: false }
    // A request that failed counts as one that was never answered.
    get(at, response => response.resume().on('end', end)).on('error', () => {})
    maxRssMiB = Math.max(maxRssMiB, residentMiB(program.pid))
  }
  const timer = setInterval(ask, healthEveryMs)
  return {
    async stop() {
      clearInterval(timer)
      const lagMs = await readLag(port)
      for (const beginMs of waiting) healthMs.push(performance.now() - beginMs)
      waiting.clear()
      return { healthMs: healthMs.sort((a, b) => a - b), maxRssMiB, lagMs }
    },
  }
}

/** The operator begins the measurement anew after each reading. */
async function readLag(port: number): Promise<OperatorFigures['lagMs']> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const read = (name: string) =>
    1000 *
    Number(new RegExp(`^tollway_operator_nodejs_eventloop_lag_${name}_seconds (.*)$`, 'm').exec(text)?.[1])
  return { p99: read('p99'), max: read('max') }
}

export function residentMiB(pid: number): number {
  try {
    const [, kibibytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kibibytes) / 1024
  } catch {
    return Number.NaN // the process has ended
  }
}

export interface LoadFigures {
  readonly calls: number
  readonly failures: readonly string[]
  /** In rising order. */
  readonly latenciesMs: readonly number[]
}

/** Calls a service at a fixed rate; `judge` says what is wrong with an answer. */
export function loadService(
  t: Cleanup,
  { grpcPort }: RateLimitProcess,
  { perSecond, domain, timeoutMs }: { perSecond: number; domain: string; timeoutMs: number },
  judge: (answer: RateLimitResponse) => string | undefined,
): { stop(): Promise<LoadFigures> } {
  const { shouldRateLimit } = callRateLimit(t, grpcPort)
  const running = new Set<Promise<void>>()
  const latenciesMs: number[] = []
  const failures: string[] = []
  let calls = 0
  async function call(): Promise<void> {
    const beginMs = performance.now()
    const descriptors = [{ entries: [{ key: 'user', value: `user-${calls % 100}` }] }]
    try {
      const problem = judge(await shouldRateLimit({ domain, descriptors }, { timeoutMs }))
      if (problem !== undefined) failures.push(problem)
    } catch (error) {
      failures.push(`${error}`)
    }
    latenciesMs.push(performance.now() - beginMs)
  }
  const timer = setInterval(() => {
    calls += 1
    const running1 = call().finally(() => running.delete(running1))
    running.add(running1)
  }, 1000 / perSecond)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(running)
      return { calls, failures, latenciesMs: latenciesMs.sort((a, b) => a - b) }
    },
  }
}

/** @param sorted in rising order. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
