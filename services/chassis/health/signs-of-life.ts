/** How long a child process may send no sign of life. */
export interface HeartbeatTimeouts {
  /** The time from the start of the process to its first sign. */
  readonly firstSignMs: number
  /** The time from one sign to the next. */
  readonly nextSignMs: number
}

interface SignsOfLife {
  /** Records a message of the process. */
  onMessage(): void
  /** Stops watching. */
  stop(): void
}

/** How often signs are checked within `nextSignMs`. */
const checksPerSign = 5

/**
 * Watches the signs of life of a child process; see `showSignsOfLife`. It counts its checks and reads no
 * clock: when this process was suspended, or the machine slept, no child is considered dead.
 *
 * @param onSilent called once, with the time without a message
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
