import { type ChildProcess, spawn } from 'node:child_process'
import { type HeartbeatTimeouts, SignsOfLife } from '@tollway/chassis/health/signs-of-life.ts'
import { type LogLine, splitLines } from './lines.ts'

export interface ReplicaCommand {
  readonly command: string
  readonly args: readonly string[]
  /** Variables that the program needs for every workload. */
  readonly env?: Readonly<Record<string, string>>
}

interface ChildOptions {
  readonly name: string
  readonly command: ReplicaCommand
  readonly env: Readonly<Record<string, string>>
  readonly log: (line: LogLine) => void
  readonly heartbeat: HeartbeatTimeouts
}

export interface ChildEvents {
  onHealth(healthy: boolean, why: string): void
  /** Called with the cause when the backend fails, and with an empty text when it answers again. */
  onBackend(problem: string): void
  /** Called once, with the time since the last message. */
  onSilence(ms: number): void
  onChannelClosed(): void
  /** Called once, with a text for people: `exited with code 1`. */
  onEnd(how: string): void
}

/** The maximum length of a log line, in UTF-16 code units. */
const maxLineLength = 16_384

/**
 * Starts a child in its own process group. If it cannot be started, returns undefined and calls `onEnd`
 * later.
 */
export function launchChild(options: ChildOptions, events: ChildEvents): ChildProcess | undefined {
  let child: ChildProcess
  try {
    child = spawn(options.command.command, [...options.command.args], {
      detached: true,
      env: options.env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
  } catch (error) {
    setImmediate(() => events.onEnd(`could not be started (${(error as Error).message})`))
    return undefined
  }
  followChild(child, options.heartbeat, events)
  for (const stream of [child.stdout, child.stderr]) {
    const lines = splitLines(maxLineLength, text => options.log({ source: options.name, text }))
    stream?.on('data', lines.write)
    stream?.on('end', lines.end)
  }
  return child
}

function followChild(child: ChildProcess, heartbeat: HeartbeatTimeouts, events: ChildEvents): void {
  let hasEnded = false
  const signs = new SignsOfLife(heartbeat, ms => events.onSilence(ms))
  const end = (how: string) => {
    if (hasEnded) return
    hasEnded = true
    signs.stop()
    events.onEnd(how)
  }
  child.on('error', error => {
    if (child.pid === undefined) end(`could not be started (${error.message})`)
  })
  child.on('exit', (code, signal) => {
    // Processes that the child has started and left running would keep its ports.
    killGroup(child.pid)
    end(signal === null ? `exited with code ${code}` : `was ended by ${signal}`)
  })
  child.on('message', message => {
    signs.onMessage()
    if (!hasEnded && isHealth(message)) events.onHealth(message.healthy, `${message.reason ?? ''}`)
    if (!hasEnded && isBackend(message)) events.onBackend(message.problem)
  })
  child.on('disconnect', () => {
    // When a process ends normally, the channel closes first, and the exit event follows in the same turn.
    setImmediate(() => {
      if (!hasEnded) events.onChannelClosed()
    })
  })
}

/** Kills the process group whose number is `pid`: the process, and the processes that it started. */
export function killGroup(pid: number | undefined): void {
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
