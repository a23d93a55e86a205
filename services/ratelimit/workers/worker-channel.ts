import type { ChildProcess } from 'node:child_process'
import { type HeartbeatTimeouts, SignsOfLife } from '@tollway/chassis/health/signs-of-life.ts'
import type { FromSupervisor, FromWorker, Question } from './messages.ts'
import type { SeriesDelta } from './series-deltas.ts'

interface WorkerEvents {
  /** Called when the process accepts calls, and at each change of its health. */
  health(healthy: boolean, reason: string): void
  /** Called when the process does not accept calls yet, with the reason. */
  waiting(reason: string): void
  /** Called with the reason when the backend fails, and with an empty one when it answers again. */
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

const askTimeoutMs = 500

/** The supervisor's side of the channel to one process of a worker, from its start to its end. */
export class WorkerChannel {
  readonly #child: ChildProcess
  readonly #events: WorkerEvents
  readonly #signs: SignsOfLife
  readonly #asked = new Map<number, (text: string) => void>()
  #lastId = 0
  #hasEnded = false

  constructor(child: ChildProcess, patience: HeartbeatTimeouts, events: WorkerEvents) {
    this.#child = child
    this.#events = events
    this.#signs = new SignsOfLife(patience, events.silent)
    child.on('message', (message: FromWorker) => this.#onMessage(message))
    child.on('error', error => {
      if (child.pid !== undefined) return
      this.#end({ how: `could not be started (${error.message})`, byItself: true })
    })
    // Unlike 'exit', 'close' comes after the last message.
    child.on('close', (code, signal) => {
      const how = signal ? `was ended by ${signal}` : `exited with code ${code}`
      this.#end({ how, byItself: signal === null })
    })
  }

  /** Ignores a failure: the process is ending, which `ended` reports. */
  send(message: FromSupervisor): void {
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  /** Resolves with the answer, or with the empty string when none arrives in time or the process ends. */
  ask(what: Question): Promise<string> {
    this.#lastId += 1
    const id = this.#lastId
    return new Promise(resolve => {
      if (!this.#child.connected) return resolve('')
      const late = setTimeout(() => this.#settle(id, ''), askTimeoutMs)
      this.#asked.set(id, text => {
        clearTimeout(late)
        resolve(text)
      })
      this.send({ type: 'ask', id, what })
    })
  }

  kill(signal: 'SIGTERM' | 'SIGKILL'): void {
    this.#child.kill(signal)
  }

  #onMessage(message: FromWorker): void {
    const events = this.#events
    this.#signs.onMessage()
    if (message.type === 'health') events.health(message.healthy, message.reason)
    else if (message.type === 'waiting') events.waiting(message.reason)
    else if (message.type === 'backend') events.backend(message.problem)
    else if (message.type === 'statistics') events.statistics(message.deltas)
    else if (message.type === 'answer') this.#settle(message.id, message.text)
  }

  #settle(id: number, text: string): void {
    this.#asked.get(id)?.(text)
    this.#asked.delete(id)
  }

  #end(ending: Ending): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#signs.stop()
    for (const id of [...this.#asked.keys()]) this.#settle(id, '')
    this.#events.ended(ending)
  }
}
