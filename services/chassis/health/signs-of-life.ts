/** How long a child process may send no sign of life before it counts as dead. */
export interface HeartbeatTimeouts {
  /** The time from the start of the process to its first sign. */
  readonly firstSignMs: number
  /** The time from one sign to the next. */
  readonly nextSignMs: number
}

/** The number of checks in one `nextSignMs`. */
const checksPerSign = 5

/**
 * Watches the signs of life that a child process sends with `showSignsOfLife`. The silence is measured by
 * counted checks, not by a clock: no child counts as dead because this process was suspended or the machine
 * slept.
 */
export class SignsOfLife {
  readonly #timer: NodeJS.Timeout
  readonly #nextSignMs: number
  #allowedMs: number
  #silentMs = 0

  /** @param onSilent called at most once, with the allowed time that has passed without a message */
  constructor({ firstSignMs, nextSignMs }: HeartbeatTimeouts, onSilent: (ms: number) => void) {
    this.#allowedMs = firstSignMs
    this.#nextSignMs = nextSignMs
    const everyMs = nextSignMs / checksPerSign
    this.#timer = setInterval(() => {
      this.#silentMs += everyMs
      if (this.#silentMs < this.#allowedMs) return
      this.stop()
      onSilent(this.#allowedMs)
    }, everyMs)
  }

  /** Records that the process has sent a message: every message is a sign of life. */
  onMessage(): void {
    this.#allowedMs = this.#nextSignMs
    this.#silentMs = 0
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
