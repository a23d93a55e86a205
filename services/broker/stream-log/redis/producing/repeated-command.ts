import { setTimeout as pause } from 'node:timers/promises'
import type { RedisLogSetup } from '../setup.ts'
import { isOutOfMemory } from '../unavailable.ts'

const retryMs = 100

/** Repeats a command until Redis accepts it. One command at a time. */
export class RepeatedCommand {
  readonly #setup: RedisLogSetup
  /** The time since which the reply is pending, by the monotonic clock. */
  #pendingSinceMs: number | undefined
  #full = false
  #cancelled = false

  constructor(setup: RedisLogSetup) {
    this.#setup = setup
  }

  /** Redis rejected the last command because it has no memory. */
  get full(): boolean {
    return this.#full
  }

  /** Redis has not replied for longer than it may. */
  get isOverdue(): boolean {
    const { clock, timings } = this.#setup
    return this.#pendingSinceMs !== undefined && clock.monotonicMs() - this.#pendingSinceMs > timings.awayMs
  }

  /** Resolves with the reply; undefined after `cancel`. Rejects if the log is closed. */
  async send<T>(command: () => Promise<T>): Promise<T | undefined> {
    const { clock, commands } = this.#setup
    this.#pendingSinceMs = clock.monotonicMs()
    while (!this.#cancelled) {
      try {
        const reply = await command()
        this.#pendingSinceMs = undefined
        this.#full = false
        return this.#cancelled ? undefined : reply
      } catch (error) {
        this.#full = isOutOfMemory(error)
        if (commands.ready) await pause(retryMs)
        else await commands.whenReady()
      }
    }
    return undefined
  }

  /** Ignores the reply to the current command, and sends no more commands. */
  cancel(): void {
    this.#cancelled = true
  }

  /** The process was paused, and may have an unread reply: the deadline starts again. */
  extendDeadlineAfterStall(): void {
    if (this.#pendingSinceMs !== undefined) this.#pendingSinceMs = this.#setup.clock.monotonicMs()
  }
}
