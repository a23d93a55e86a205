import type { ChildProcess } from 'node:child_process'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { HeartbeatTimeouts } from '@tollway/chassis/signs-of-life.ts'
import type { MergedStats } from './merged-stats.ts'
import type { Question } from './messages.ts'
import { type Ending, openWorkerChannel, type WorkerChannel } from './worker-channel.ts'

/** One worker: a process that is restarted when it ends, until it is stopped. */
export interface Worker {
  readonly state: WorkerState
  /** The cause of a failure of its backend; empty when it answers, or when no process runs. */
  readonly backendProblem: string
  /** Sends the health of all workers together to the process, also to later ones. */
  sendWholeHealth(healthy: boolean): void
  /** Resolves with the answer; empty when no process runs, or it does not answer in time. */
  ask(what: Question): Promise<string>
  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process has ended; it is not restarted. */
  stop(graceMs: number): Promise<void>
}

export interface WorkerState {
  /**
   * `absent`: no process of the worker accepts calls; the other workers get its share. `healthy` and
   * `unhealthy` workers accept calls.
   */
  readonly is: 'absent' | 'healthy' | 'unhealthy'
  /** Why it is not healthy, in a few words. */
  readonly reason: string
}

export interface WorkerOptions {
  /** Starts a process with an IPC channel that behaves like `worker-link.ts`. */
  readonly fork: () => ChildProcess
  readonly stats: MergedStats
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Called after each change of `state` or `backendProblem`. */
  readonly onChange: () => void
  /** Called before a process is killed that sent no sign of life for `ms` milliseconds. */
  readonly onSilent: (ms: number) => void
  /** Called when a process ended unexpectedly; the next is started after `waitMs`. */
  readonly onEnd: (ending: Ending, waitMs: number) => void
  readonly limits?: Partial<WorkerLimits>
}

export interface WorkerLimits {
  /** A process without signs of life is killed and restarted. */
  readonly patience: HeartbeatTimeouts
  /**
   * A process that accepts calls and is not healthy yet counts as absent for this time, since its backend may
   * connect soon.
   */
  readonly settleMs: number
  /** After this time in good health the delay of restarts is reset. */
  readonly healthyForMs: number
  readonly restarts: { readonly initialMs: number; readonly maxMs: number; readonly factor: number }
}

export const workerLimits: WorkerLimits = {
  patience: { firstSignMs: 20_000, nextSignMs: 5_000 },
  settleMs: 1_000,
  healthyForMs: 30_000,
  restarts: { initialMs: 200, maxMs: 10_000, factor: 2 },
}

const starting: WorkerState = { is: 'absent', reason: 'starting' }

export function keepWorker(options: WorkerOptions): Worker {
  const { clock, random, onChange } = options
  const limits = { ...workerLimits, ...options.limits }
  const backoff = createBackoff({ ...limits.restarts, jitter: 0.5, random })
  const gone = Promise.withResolvers<void>()
  let state = starting
  let backendProblem = ''
  let channel: WorkerChannel | undefined
  let timer: NodeJS.Timeout | undefined
  let healthySinceMs = Number.NaN
  let whole = false
  let stopped: Promise<void> | undefined

  function change(next: WorkerState): void {
    if (next.is === state.is && next.reason === state.reason) return
    if (next.is !== state.is) healthySinceMs = next.is === 'healthy' ? clock.monotonicMs() : Number.NaN
    state = next
    onChange()
  }

  function health(healthy: boolean, reason: string): void {
    if (stopped !== undefined) return
    clearTimeout(timer)
    if (healthy) change({ is: 'healthy', reason: '' })
    else if (state.is !== 'absent') change({ is: 'unhealthy', reason })
    else timer = setTimeout(change, limits.settleMs, { is: 'unhealthy', reason })
  }

  function waiting(reason: string): void {
    if (stopped === undefined && state.is === 'absent') change({ is: 'absent', reason })
  }

  function backend(problem: string): void {
    if (problem === backendProblem) return
    backendProblem = problem
    onChange()
  }

  function silent(ms: number): void {
    options.onSilent(ms)
    channel?.kill('SIGKILL')
  }

  function ended(ending: Ending): void {
    channel = undefined
    backendProblem = ''
    clearTimeout(timer)
    if (stopped !== undefined) {
      gone.resolve()
      return
    }
    if (clock.monotonicMs() - healthySinceMs >= limits.healthyForMs) backoff.reset()
    const waitMs = backoff.nextMs()
    timer = setTimeout(start, waitMs)
    change({ is: 'absent', reason: ending.how })
    options.onEnd(ending, waitMs)
  }

  function start(): void {
    change(starting)
    let child: ChildProcess
    try {
      child = options.fork()
    } catch (error) {
      setImmediate(ended, { how: `could not be started (${(error as Error).message})`, byItself: true })
      return
    }
    const stats = options.stats.open()
    channel = openWorkerChannel(child, limits.patience, {
      health,
      waiting,
      backend,
      silent,
      statistics: stats.take,
      ended(ending) {
        stats.close()
        ended(ending)
      },
    })
    channel.send({ type: 'whole', healthy: whole })
  }

  async function end(graceMs: number): Promise<void> {
    clearTimeout(timer)
    change({ is: 'absent', reason: 'stopping' })
    if (channel === undefined) return
    channel.kill('SIGTERM')
    timer = setTimeout(channel.kill, graceMs, 'SIGKILL')
    await gone.promise
  }

  start()
  return {
    get state() {
      return state
    },
    get backendProblem() {
      return backendProblem
    },
    sendWholeHealth(healthy) {
      whole = healthy
      channel?.send({ type: 'whole', healthy })
    },
    ask: async what => (await channel?.ask(what)) ?? '',
    stop(graceMs) {
      // Marked as stopped before any effect of this call.
      stopped ??= Promise.resolve(graceMs).then(end)
      return stopped
    },
  }
}
