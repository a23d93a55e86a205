import type { ChildProcess } from 'node:child_process'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { HeartbeatTimeouts } from '@tollway/chassis/health/signs-of-life.ts'
import type { MergedStats } from './merged-stats.ts'
import type { Question } from './messages.ts'
import { type Ending, WorkerChannel } from './worker-channel.ts'

export interface WorkerState {
  /**
   * `absent`: no process of the worker accepts calls, and the other workers get its share of connections. A
   * `healthy` or `unhealthy` worker accepts calls.
   */
  readonly is: 'absent' | 'healthy' | 'unhealthy'
  /** Why the worker is not healthy, in a few words; empty when it is. */
  readonly reason: string
}

interface WorkerOptions {
  /** Starts a process that has an IPC channel and uses it as `worker-link.ts` does. */
  readonly fork: () => ChildProcess
  readonly stats: MergedStats
  readonly clock: Clock
  readonly random: () => number
  /** Called after each change of `state` or `backendProblem`. */
  readonly onChange: () => void
  /** Called before a process is killed because it sent no sign of life for `ms` milliseconds. */
  readonly onSilent: (ms: number) => void
  /** Called when a process ended unexpectedly; a new one is started after `waitMs`. */
  readonly onEnd: (ending: Ending, waitMs: number) => void
  readonly limits?: Partial<WorkerLimits>
}

interface WorkerLimits {
  /** A process that sends no sign of life for this time is killed and restarted. */
  readonly heartbeat: HeartbeatTimeouts
  /** A process that is not yet healthy counts as absent for this time: its backend may still connect. */
  readonly settleMs: number
  /** The delay of restarts is reset after a process was healthy for this time. */
  readonly healthyForMs: number
  readonly restarts: { readonly initialMs: number; readonly maxMs: number; readonly factor: number }
}

const workerLimits: WorkerLimits = {
  heartbeat: { firstSignMs: 20_000, nextSignMs: 5_000 },
  settleMs: 1_000,
  healthyForMs: 30_000,
  restarts: { initialMs: 200, maxMs: 10_000, factor: 2 },
}

const starting: WorkerState = { is: 'absent', reason: 'starting' }

/** One worker: a process that is restarted when it ends, until it is stopped. */
export class Worker {
  readonly #options: WorkerOptions
  readonly #limits: WorkerLimits
  readonly #backoff: Backoff
  readonly #gone = Promise.withResolvers<void>()
  #state = starting
  #backendProblem = ''
  #channel: WorkerChannel | undefined
  #timer: NodeJS.Timeout | undefined
  #healthySinceMs = Number.NaN
  /** The last health of all workers together; sent to each new process. */
  #wholeHealthy = false
  #stopped: Promise<void> | undefined

  /** Starts the first process. */
  constructor(options: WorkerOptions) {
    this.#options = options
    this.#limits = { ...workerLimits, ...options.limits }
    this.#backoff = createBackoff({ ...this.#limits.restarts, jitter: 0.5, random: options.random })
    this.#start()
  }

  get state(): WorkerState {
    return this.#state
  }

  /** Why the worker's backend fails; empty when it answers, and when no process runs. */
  get backendProblem(): string {
    return this.#backendProblem
  }

  /** Sends the health of all workers together to the process, and to each later process of this worker. */
  sendServiceHealth(healthy: boolean): void {
    this.#wholeHealthy = healthy
    this.#channel?.send({ type: 'whole', healthy })
  }

  /** Resolves with the empty string when no process runs or it does not answer in time. */
  async ask(what: Question): Promise<string> {
    return (await this.#channel?.ask(what)) ?? ''
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process has ended; it is not restarted. */
  stop(graceMs: number): Promise<void> {
    // `#stopped` is set before `#end` has any effect.
    this.#stopped ??= Promise.resolve().then(() => this.#end(graceMs))
    return this.#stopped
  }

  #start(): void {
    this.#change(starting)
    let child: ChildProcess
    try {
      child = this.#options.fork()
    } catch (error) {
      const how = `could not be started (${(error as Error).message})`
      setImmediate(() => this.#onEnded({ how, byItself: true }))
      return
    }
    const stats = this.#options.stats.open()
    this.#channel = new WorkerChannel(child, this.#limits.heartbeat, {
      health: (healthy, reason) => this.#onHealth(healthy, reason),
      waiting: reason => this.#onWaiting(reason),
      backend: problem => this.#onBackend(problem),
      silent: ms => this.#onSilent(ms),
      statistics: deltas => stats.take(deltas),
      ended: ending => {
        stats.close()
        this.#onEnded(ending)
      },
    })
    this.#channel.send({ type: 'whole', healthy: this.#wholeHealthy })
  }

  async #end(graceMs: number): Promise<void> {
    clearTimeout(this.#timer)
    this.#change({ is: 'absent', reason: 'stopping' })
    const channel = this.#channel
    if (channel === undefined) return
    channel.kill('SIGTERM')
    this.#timer = setTimeout(() => channel.kill('SIGKILL'), graceMs)
    await this.#gone.promise
  }

  #change(next: WorkerState): void {
    const before = this.#state
    if (next.is === before.is && next.reason === before.reason) return
    if (next.is !== before.is) {
      this.#healthySinceMs = next.is === 'healthy' ? this.#options.clock.monotonicMs() : Number.NaN
    }
    this.#state = next
    this.#options.onChange()
  }

  #onHealth(healthy: boolean, reason: string): void {
    if (this.#stopped !== undefined) return
    clearTimeout(this.#timer)
    const unhealthy: WorkerState = { is: 'unhealthy', reason }
    if (healthy) this.#change({ is: 'healthy', reason: '' })
    else if (this.#state.is !== 'absent') this.#change(unhealthy)
    else this.#timer = setTimeout(() => this.#change(unhealthy), this.#limits.settleMs)
  }

  #onWaiting(reason: string): void {
    if (this.#stopped === undefined && this.#state.is === 'absent') this.#change({ is: 'absent', reason })
  }

  #onBackend(problem: string): void {
    if (problem === this.#backendProblem) return
    this.#backendProblem = problem
    this.#options.onChange()
  }

  #onSilent(ms: number): void {
    this.#options.onSilent(ms)
    this.#channel?.kill('SIGKILL')
  }

  #onEnded(ending: Ending): void {
    const { clock, onEnd } = this.#options
    this.#channel = undefined
    this.#backendProblem = ''
    clearTimeout(this.#timer)
    if (this.#stopped !== undefined) {
      this.#gone.resolve()
      return
    }
    if (clock.monotonicMs() - this.#healthySinceMs >= this.#limits.healthyForMs) this.#backoff.reset()
    const waitMs = this.#backoff.nextMs()
    this.#timer = setTimeout(() => this.#start(), waitMs)
    this.#change({ is: 'absent', reason: ending.how })
    onEnd(ending, waitMs)
  }
}
