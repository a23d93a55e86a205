import type { ChildProcess } from 'node:child_process'
import { type HeartbeatTimeouts, SignsOfLife } from '@tollway/chassis/health/signs-of-life.ts'
import type { FromSupervisor, FromWorker, Question } from './messages.ts'
import type { SeriesDelta } from './series-deltas.ts'

/** The supervisor's side of the channel to one process of a worker, from its start to its end. */
export interface WorkerChannel {
  send(message: FromSupervisor): void
  /** Resolves with the answer, or with the empty string when none arrives in time or the process ends. */
  ask(what: Question): Promise<string>
  kill(signal: 'SIGTERM' | 'SIGKILL'): void
}

interface WorkerEvents {
  /** Called when the process accepts calls, and at each change of its health. */
  health(healthy: boolean, reason: string): void
  /** Called when the process does not accept calls yet, with the reason. */
  waiting(reason: string): void
  /**
   * Called when the process's backend fails, with the reason, and with an empty one when it answers again.
   */
  backend(problem: string): void
  statistics(deltas: readonly SeriesDelta[]): void
  /** Called once, when no message arrived for `ms` milliseconds. */
  silent(ms: number): void
  /** Called once, after the last message of the process. */
  ended(ending: Ending): void
}

export interface Ending {
  /** How the process ended, for people: `exited with code 1`. */
  readonly how: string
  /** True if the process exited; false if a signal ended it. */
  readonly byItself: boolean
}

/** The timeout of `ask`. */
const askTimeoutMs = 500

export function openWorkerChannel(
  child: ChildProcess,
  patience: HeartbeatTimeouts,
  events: WorkerEvents,
): WorkerChannel {
  const asked = new Map<number, (text: string) => void>()
  let lastId = 0
  let hasEnded = false
  const signs = new SignsOfLife(patience, events.silent)

  function settle(id: number, text: string): void {
    asked.get(id)?.(text)
    asked.delete(id)
  }

  function end(ending: Ending): void {
    if (hasEnded) return
    hasEnded = true
    signs.stop()
    for (const id of [...asked.keys()]) settle(id, '')
    events.ended(ending)
  }

  function send(message: FromSupervisor): void {
    // A failure to send is ignored: the process is ending, which `ended` reports.
    if (child.connected) child.send(message, () => {})
  }

  child.on('message', (message: FromWorker) => {
    signs.onMessage()
    if (message.type === 'health') events.health(message.healthy, message.reason)
    else if (message.type === 'waiting') events.waiting(message.reason)
    else if (message.type === 'backend') events.backend(message.problem)
    else if (message.type === 'statistics') events.statistics(message.deltas)
    else if (message.type === 'answer') settle(message.id, message.text)
  })
  child.on('error', error => {
    if (child.pid === undefined) end({ how: `could not be started (${error.message})`, byItself: true })
  })
  // Unlike 'exit', 'close' comes after the last message.
  child.on('close', (code, signal) => {
    end({ how: signal ? `was ended by ${signal}` : `exited with code ${code}`, byItself: signal === null })
  })
  return {
    send,
    ask(what) {
      lastId += 1
      const id = lastId
      return new Promise(resolve => {
        if (!child.connected) return resolve('')
        const late = setTimeout(settle, askTimeoutMs, id, '')
        asked.set(id, text => {
          clearTimeout(late)
          resolve(text)
        })
        send({ type: 'ask', id, what })
      })
    },
    kill: signal => void child.kill(signal),
  }
}
