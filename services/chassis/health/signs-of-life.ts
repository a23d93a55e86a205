/** How long a child process may send no sign of life before it counts as dead. */
export interface HeartbeatTimeouts {
  /** The time from the start of the process to its first sign. */
  readonly firstSignMs: number
  /** The time from one sign to the next. */
  readonly nextSignMs: number
}

interface SignsOfLife {
  /** Records that the process has sent a message: every message is a sign of life. */
  onMessage(): void
  stop(): void
}

/** The number of checks in one `nextSignMs`. */
const checksPerSign = 5

/**
 * Watches the signs of life that a child process sends with `showSignsOfLife`. The silence is measured by
 * counted checks, not by a clock: no child is considered dead because this process was suspended or the
 * machine slept.
 *
 * @param onSilent called at most once, with the allowed time that has passed without a message
 */
export function watchSigns(
  { firstSignMs, nextSignMs }: HeartbeatTimeouts,
  onSilent: (ms: number) => void,
): SignsOfLife {
  const everyMs = nextSignMs / checksPerSign
  let allowedMs = firstSignMs
  let silentMs = 0
  const timer = setInterval(() => {
    silentMs += everyMs
    if (silentMs < allowedMs) return
    clearInterval(timer)
    onSilent(allowedMs)
  }, everyMs)
  return {
    onMessage() {
      allowedMs = nextSignMs
      silentMs = 0
    },
    stop: () => clearInterval(timer),
  }
}
