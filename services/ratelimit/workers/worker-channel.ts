import type { ChildProcess } from 'node:child_process'
import { type Patience, watchSigns } from '@tollway/chassis/signs-of-life.ts'
import type { FromSupervisor, FromWorker, Question } from './messages.ts'
import type { SeriesDelta } from './series-deltas.ts'

/** The supervisor's side of the channel to one process of a worker, from its start to its end. */
export interface WorkerChannel {
  tell(message: FromSupervisor): void
  /** The answer; empty when none comes in time, or the process ends. */
  ask(what: Question): Promise<string>
  kill(signal: 'SIGTERM' | 'SIGKILL'): void
}

export interface WorkerEvents {
  /** It takes calls; whether they can be answered. */
  health(healthy: boolean, reason: string): void
  /** It takes no call yet, for this reason. */
  waiting(reason: string): void
  statistics(deltas: readonly SeriesDelta[]): void
  /** Nothing was heard for so long; told once. */
  silent(ms: number): void
  /** Told once, after the last that it said. */
  ended(ending: Ending): void
}

export interface Ending {
  /** For people: `exited with code 1`. */
  readonly how: string
  /** It ended by itself; otherwise a signal ended it. */
  readonly byItself: boolean
}

/** A worker that does not answer in this time is left out. */
export const askTimeoutMs = 500

export function openWorkerChannel(
  child: ChildProcess,
  patience: Patience,
  events: WorkerEvents,
): WorkerChannel {
  const asked = new Map<number, (text: string) => void>()
  let lastId = 0
  let hasEnded = false
  const signs = watchSigns(patience, events.silent)

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

  function tell(message: FromSupervisor): void {
    // A worker that is gone in this very moment is told of by its end, so the failure to send is nothing.
    if (child.connected) child.send(message, () => {})
  }

  child.on('message', (message: FromWorker) => {
    signs.heard()
    if (message.type === 'health') events.health(message.healthy, message.reason)
    else if (message.type === 'waiting') events.waiting(message.reason)
    else if (message.type === 'statistics') events.statistics(message.deltas)
    else if (message.type === 'answer') settle(message.id, message.text)
  })
  child.on('error', error => {
    if (child.pid === undefined) end({ how: `could not be started (${error.message})`, byItself: true })
  })
  // Unlike 'exit' it comes after the last message.
  child.on('close', (code, signal) => {
    end({ how: signal ? `was ended by ${signal}` : `exited with code ${code}`, byItself: signal === null })
  })
  return {
    tell,
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
        tell({ type: 'ask', id, what })
      })
    },
    kill: signal => void child.kill(signal),
  }
}
