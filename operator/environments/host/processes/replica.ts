import { type ChildProcess, spawn } from 'node:child_process'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type HeartbeatTimeouts, watchSigns } from '@tollway/chassis/signs-of-life.ts'
import type { Replica } from '../../../infrastructure/provider.ts'
import { type LogLine, splitLines } from './lines.ts'

/** The program of a service. */
export interface ReplicaCommand {
  readonly command: string
  readonly args: readonly string[]
  /** The variables that this program needs for every workload. */
  readonly env?: Readonly<Record<string, string>>
}

export interface ReplicaOptions {
  /** `ratelimit-0`. */
  readonly name: string
  readonly command: ReplicaCommand
  /** All that the process gets: nothing of this process's own environment is inherited. */
  readonly envFor: (uid: string) => Readonly<Record<string, string>>
  readonly addresses: Readonly<Record<string, string>>
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Unique for ever. */
  readonly newUid: () => string
  readonly log: (line: LogLine) => void
  /** Called after each later change of the result of `observe`. */
  readonly onChange: () => void
  /** Called when the process ended without being asked to, with how: `exited with code 1`. */
  readonly onEnd?: (how: string) => void
  /** Aborted to kill the process instead of waiting for its end. */
  readonly forceShutdown?: AbortSignal
  /** After it a silent process is killed and started again; `replicaLimits` where left out. */
  readonly heartbeat?: HeartbeatTimeouts
}

/** One process that is kept running. */
export interface ReplicaProcess {
  observe(): Replica
  /** SIGTERM, and after `graceMs` SIGKILL; resolves when the process is gone. It is not started again. */
  stop(graceMs: number): Promise<void>
}

export const replicaLimits = {
  /** A log line's length, in UTF-16 code units. */
  maxLineLength: 16_384,
  /** After this time of good health the delays of restarts begin again with the shortest. */
  healthyForMs: 30_000,
  /** A process that closed its channel must end by itself within this. */
  channelGraceMs: 5_000,
  heartbeat: { firstSignMs: 20_000, nextSignMs: 5_000 },
} as const

/** When a process that ended is started again; `healthyForMs` begins this anew. */
const restarts = { initialMs: 200, maxMs: 10_000, factor: 2, jitter: 0.5 } as const

/**
 * Starts a process, and restarts it with growing delays when it ends. Over Node's IPC channel the process
 * reports whether it accepts calls (`{ type: 'health', healthy: boolean, reason?: string }`), and whether its
 * backend fails (`{ type: 'backend', problem: string }`). It ends when the channel closes, so it does not
 * outlive this process, even after SIGKILL. A process without any message for too long, `{ type: 'alive' }`
 * included, is killed and restarted. It runs in a separate session, so that Ctrl-C in a terminal reaches only
 * this process, which then ends the others in order.
 */
export function startReplica(options: ReplicaOptions): ReplicaProcess {
  const { name, clock, onChange } = options
  const backoff = createBackoff({ ...restarts, random: options.random })
  let state: State = { uid: '', ready: false, reason: 'starting', restarts: 0 }
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let healthySinceMs = Number.NaN
  let stopped: Promise<void> | undefined
  const gone = Promise.withResolvers<void>()

  const change = (changes: Partial<State>) => {
    state = { ...state, ...changes }
    onChange()
  }

  const health = (healthy: boolean, why: string) => {
    const reason = healthy ? '' : why || 'takes no calls'
    if (stopped !== undefined || (healthy === state.ready && reason === state.reason)) return
    if (healthy !== state.ready) healthySinceMs = healthy ? clock.monotonicMs() : Number.NaN
    change({ ready: healthy, reason })
  }

  const backend = (problem: string) => {
    if (problem === (state.backendProblem ?? '')) return
    const { backendProblem: _, ...rest } = state
    state = problem === '' ? rest : { ...rest, backendProblem: problem }
    onChange()
  }

  const silent = (ms: number) => {
    const reason = `showed no sign of life for ${ms / 1000} s and is killed`
    options.log({ source: name, text: reason })
    killGroupOf(child?.pid)
    change({ ready: false, reason })
  }

  const ended = (how: string) => {
    child = undefined
    clearTimeout(timer)
    if (stopped !== undefined) {
      gone.resolve()
      return change({ ready: false, reason: 'stopped' })
    }
    if (clock.monotonicMs() - healthySinceMs >= replicaLimits.healthyForMs) backoff.reset()
    healthySinceMs = Number.NaN
    options.onEnd?.(how)
    const waitMs = backoff.nextMs()
    timer = setTimeout(start, waitMs, state.restarts + 1)
    change({ ready: false, reason: `${how}, again in ${(waitMs / 1000).toFixed(1)} s` })
  }

  const start = (restartCount: number) => {
    state = { uid: options.newUid(), ready: false, reason: 'starting', restarts: restartCount }
    child = launch(options, state.uid, {
      health,
      backend,
      ended,
      silent,
      channelClosed: () => {
        if (stopped !== undefined) return
        timer = setTimeout(() => killGroupOf(child?.pid), replicaLimits.channelGraceMs)
        change({ ready: false, reason: 'closed its channel to the operator' })
      },
    })
    if (restartCount > 0) onChange()
  }

  const end = async (graceMs: number) => {
    clearTimeout(timer)
    if (child === undefined) return change({ ready: false, reason: 'stopped' })
    change({ ready: false, reason: 'stopping' })
    child.kill('SIGTERM')
    timer = setTimeout(() => killGroupOf(child?.pid), graceMs)
    await gone.promise
  }

  options.forceShutdown?.addEventListener('abort', () => killGroupOf(child?.pid))
  start(0)
  return {
    observe: () => ({ name, ...state, addresses: options.addresses }),
    stop(graceMs) {
      // Set before the first change is reported, so that listeners see the replica as stopped.
      stopped ??= Promise.resolve(graceMs).then(end)
      return stopped
    },
  }
}

type State = Omit<Replica, 'name' | 'addresses'>

interface Events {
  health(healthy: boolean, why: string): void
  /** The backend fails for this cause, or answers again if it is empty. */
  backend(problem: string): void
  /** Called once, with how long nothing was heard. */
  silent(ms: number): void
  channelClosed(): void
  /** Called once, with how, for people: `exited with code 1`. */
  ended(how: string): void
}

function launch(options: ReplicaOptions, uid: string, events: Events): ChildProcess | undefined {
  let child: ChildProcess
  try {
    child = spawn(options.command.command, [...options.command.args], {
      detached: true,
      env: options.envFor(uid),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
  } catch (error) {
    setImmediate(events.ended, `could not be started (${(error as Error).message})`)
    return undefined
  }
  let hasEnded = false
  const signs = watchSigns(options.heartbeat ?? replicaLimits.heartbeat, events.silent)
  const end = (how: string) => {
    if (hasEnded) return
    hasEnded = true
    signs.stop()
    events.ended(how)
  }
  child.on('error', error => {
    if (child.pid === undefined) end(`could not be started (${error.message})`)
  })
  child.on('exit', (code, signal) => {
    // Processes that it started and left running would keep its ports.
    killGroupOf(child.pid)
    end(signal === null ? `exited with code ${code}` : `was ended by ${signal}`)
  })
  child.on('message', message => {
    signs.heard()
    if (!hasEnded && isHealth(message)) events.health(message.healthy, `${message.reason ?? ''}`)
    if (!hasEnded && isBackend(message)) events.backend(message.problem)
  })
  child.on('disconnect', () => {
    // At an ordinary end the channel closes first, and the exit event follows in the same turn.
    setImmediate(() => {
      if (!hasEnded) events.channelClosed()
    })
  })
  for (const stream of [child.stdout, child.stderr]) {
    const lines = splitLines(replicaLimits.maxLineLength, text => options.log({ source: options.name, text }))
    stream?.on('data', lines.write)
    stream?.on('end', lines.end)
  }
  return child
}

/** Each process leads a group of its own, of the same number: what it started goes with it. */
function killGroupOf(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function isBackend(message: unknown): message is { readonly problem: string } {
  if (typeof message !== 'object' || message === null) return false
  const { type, problem } = message as Readonly<Record<string, unknown>>
  return type === 'backend' && typeof problem === 'string'
}

function isHealth(message: unknown): message is { readonly healthy: boolean; readonly reason?: unknown } {
  if (typeof message !== 'object' || message === null) return false
  const { type, healthy } = message as Readonly<Record<string, unknown>>
  return type === 'health' && typeof healthy === 'boolean'
}
