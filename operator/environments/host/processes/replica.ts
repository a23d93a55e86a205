import type { ChildProcess } from 'node:child_process'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { HeartbeatTimeouts } from '@tollway/chassis/health/signs-of-life.ts'
import type { Replica } from '../../../infrastructure/provider.ts'
import { type ChildEvents, killGroup, launchChild, type ReplicaCommand } from './launch-child.ts'
import type { LogLine } from './lines.ts'

export interface ReplicaOptions {
  /** The name: `ratelimit-0`. */
  readonly name: string
  readonly command: ReplicaCommand
  /** Returns the whole environment of the process. It inherits no variable of this process. */
  readonly envFor: (uid: string) => Readonly<Record<string, string>>
  readonly addresses: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly random: () => number
  readonly newUid: () => string
  readonly log: (line: LogLine) => void
  /** Called after each change of the result of `observe`, but not for the first result. */
  readonly onChange: () => void
  /** Called when the process has ended by itself, with a text for people: `exited with code 1`. */
  readonly onEnd?: (how: string) => void
  /** When it aborts, the process is killed without a wait for its end. */
  readonly forceShutdown?: AbortSignal
  /**
   * How long a process may send no message before it is killed and restarted; `replicaLimits.heartbeat` when
   * left out.
   */
  readonly heartbeat?: HeartbeatTimeouts
}

const replicaLimits = {
  /** A process that was ready for this time gets the shortest restart delay again. */
  healthyForMs: 30_000,
  /** The time within which a process that closed its channel must end by itself. */
  channelGraceMs: 5_000,
  heartbeat: { firstSignMs: 20_000, nextSignMs: 5_000 },
} as const

/** The delays before restarts. A process that was ready for `healthyForMs` resets them. */
const restarts = { initialMs: 200, maxMs: 10_000, factor: 2, jitter: 0.5 } as const

type State = Omit<Replica, 'name' | 'addresses'>

/**
 * Runs a process, and restarts it with growing delays when it ends.
 *
 * - Over Node's IPC channel the process reports whether it accepts calls (`{ type: 'health', healthy:
 *   boolean, reason?: string }`) and whether its backend fails (`{ type: 'backend', problem: string }`).
 * - A process that sends no message for too long, not even `{ type: 'alive' }`, is killed and restarted.
 * - The process ends when the channel closes, so it does not outlive this process, even after SIGKILL.
 * - It runs in its own session: Ctrl-C in a terminal reaches only this process, which ends the others in
 *   order.
 */
export class ReplicaProcess implements ChildEvents {
  readonly #options: ReplicaOptions
  readonly #backoff: Backoff
  readonly #ended = Promise.withResolvers<void>()
  #state: State = { uid: '', ready: false, reason: 'starting', restarts: 0 }
  #child: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #healthySinceMs = Number.NaN
  #stopped: Promise<void> | undefined

  constructor(options: ReplicaOptions) {
    this.#options = options
    this.#backoff = createBackoff({ ...restarts, random: options.random })
    options.forceShutdown?.addEventListener('abort', () => killGroup(this.#child?.pid))
    this.#start(0)
  }

  observe(): Replica {
    const { name, addresses } = this.#options
    return { name, ...this.#state, addresses }
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process has ended; it is not restarted. */
  stop(graceMs: number): Promise<void> {
    // Set before the first change is reported, so that listeners find the replica stopped.
    this.#stopped ??= Promise.resolve().then(() => this.#end(graceMs))
    return this.#stopped
  }

  onHealth(healthy: boolean, why: string): void {
    const { ready, reason: before } = this.#state
    const reason = healthy ? '' : why || 'takes no calls'
    if (this.#stopped !== undefined || (healthy === ready && reason === before)) return
    if (healthy !== ready) this.#healthySinceMs = healthy ? this.#options.clock.monotonicMs() : Number.NaN
    this.#change({ ready: healthy, reason })
  }

  onBackend(problem: string): void {
    const { backendProblem = '', ...rest } = this.#state
    if (problem === backendProblem) return
    this.#state = problem === '' ? rest : { ...rest, backendProblem: problem }
    this.#options.onChange()
  }

  onSilence(ms: number): void {
    const reason = `showed no sign of life for ${ms / 1000} s and is killed`
    this.#options.log({ source: this.#options.name, text: reason })
    killGroup(this.#child?.pid)
    this.#change({ ready: false, reason })
  }

  onChannelClosed(): void {
    if (this.#stopped !== undefined) return
    this.#timer = setTimeout(() => killGroup(this.#child?.pid), replicaLimits.channelGraceMs)
    this.#change({ ready: false, reason: 'closed its channel to the operator' })
  }

  onEnd(how: string): void {
    this.#child = undefined
    clearTimeout(this.#timer)
    if (this.#stopped === undefined) {
      this.#restartLater(how)
      return
    }
    this.#ended.resolve()
    this.#change({ ready: false, reason: 'stopped' })
  }

  #restartLater(how: string): void {
    const { clock, onEnd } = this.#options
    if (clock.monotonicMs() - this.#healthySinceMs >= replicaLimits.healthyForMs) this.#backoff.reset()
    this.#healthySinceMs = Number.NaN
    onEnd?.(how)
    const waitMs = this.#backoff.nextMs()
    this.#timer = setTimeout(() => this.#start(this.#state.restarts + 1), waitMs)
    this.#change({ ready: false, reason: `${how}, again in ${(waitMs / 1000).toFixed(1)} s` })
  }

  #start(restartCount: number): void {
    const { name, command, envFor, newUid, log, heartbeat = replicaLimits.heartbeat } = this.#options
    const uid = newUid()
    this.#state = { uid, ready: false, reason: 'starting', restarts: restartCount }
    this.#child = launchChild({ name, command, env: envFor(uid), log, heartbeat }, this)
    if (restartCount > 0) this.#options.onChange()
  }

  async #end(graceMs: number): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#child === undefined) return this.#change({ ready: false, reason: 'stopped' })
    this.#change({ ready: false, reason: 'stopping' })
    this.#child.kill('SIGTERM')
    this.#timer = setTimeout(() => killGroup(this.#child?.pid), graceMs)
    await this.#ended.promise
  }

  #change(changes: Partial<State>): void {
    this.#state = { ...this.#state, ...changes }
    this.#options.onChange()
  }
}
