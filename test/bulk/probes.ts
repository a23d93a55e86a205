import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { RateLimitResponse } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { startProgram } from '../support/program.ts'
import { callRateLimit, type RateLimitProcess } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import type { OperatorProcess } from './bulk-cluster.ts'

/** The behaviour of one operator over a while. */
export interface OperatorFigures {
  /** The times of `/healthz`, in milliseconds, in rising order. */
  readonly healthMs: readonly number[]
  readonly maxRssMiB: number
  /** The lateness of its event loop, in milliseconds, by its own measure. */
  readonly lagMs: { readonly p99: number; readonly max: number }
}

export interface HealthFigures {
  readonly operators: readonly OperatorFigures[]
  /** The times of a server that does nothing: late answers of it show that the machine is late. */
  readonly controlMs: readonly number[]
}

const prober = fileURLToPath(new URL('health-prober.ts', import.meta.url))
const rssEveryMs = 25

/** Starts a server that does nothing, and returns its port. */
export async function startControlPage(t: Cleanup): Promise<number> {
  const program = startProgram(process.execPath, [prober, 'control'])
  t.after(async () => {
    await program.end('SIGKILL')
  })
  await program.said('}')
  return (JSON.parse(program.output()) as { port: number }).port
}

/**
 * Measures the operators until `stop`. Another process asks for `/healthz`, because this one has work that
 * would delay it.
 */
export async function watchOperators(
  t: Cleanup,
  operators: readonly OperatorProcess[],
  controlPort: number,
): Promise<{ stop(): Promise<HealthFigures> }> {
  const ports = [...operators.map(({ port }) => port), controlPort]
  const program = startProgram(process.execPath, [prober, ...ports.map(String)])
  t.after(async () => {
    await program.end('SIGKILL')
  })
  await program.said('asking')
  const maxRssMiB = operators.map(() => 0)
  const timer = setInterval(() => {
    for (const [index, { program }] of operators.entries()) {
      maxRssMiB[index] = Math.max(maxRssMiB[index] ?? 0, residentMiB(program.pid))
    }
  }, rssEveryMs)
  return {
    async stop() {
      clearInterval(timer)
      await program.end('SIGTERM')
      const [, written = ''] = program.output().split('\n')
      const times = (JSON.parse(written) as number[][]).map(ofPort => ofPort.sort((a, b) => a - b))
      const figures = operators.map(async ({ port }, index): Promise<OperatorFigures> => {
        const lagMs = await readLag(port)
        return { healthMs: times[index] ?? [], maxRssMiB: maxRssMiB[index] ?? 0, lagMs }
      })
      return { operators: await Promise.all(figures), controlMs: times.at(-1) ?? [] }
    },
  }
}

/** The operator restarts the measurement after each reading. */
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
  /** The latencies in ascending order. */
  readonly latenciesMs: readonly number[]
}

/**
 * Calls a service at a fixed rate; `judge` returns the problem of an answer. `judge` says what is wrong with
 * an answer.
 */
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
