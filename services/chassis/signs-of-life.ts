/** How long a child process may show no sign of life. */
export interface Patience {
  /** From its start to the first sign. */
  readonly firstSignMs: number
  /** From one sign to the next. */
  readonly nextSignMs: number
}

export interface SignsOfLife {
  /** Something was heard of the process. */
  heard(): void
  /** Nothing more is awaited. */
  stop(): void
}

/** How often it is looked whether there was a sign of life, in the time that a process has for one. */
const looksPerSign = 5

/**
 * The parent's side of `showSignsOfLife`. Counts its own looks, not the time: when this process was held up
 * itself, or the machine slept, nobody is given up for it.
 *
 * @param onSilent called once, with how long nothing was heard
 */
export function watchSigns(
  { firstSignMs, nextSignMs }: Patience,
  onSilent: (ms: number) => void,
): SignsOfLife {
  const everyMs = nextSignMs / looksPerSign
  let allowedMs = firstSignMs
  let silentMs = 0
  const timer = setInterval(() => {
    silentMs += everyMs
    if (silentMs < allowedMs) return
    clearInterval(timer)
    onSilent(allowedMs)
  }, everyMs)
  return {
    heard() {
      allowedMs = nextSignMs
      silentMs = 0
    },
    stop: () => clearInterval(timer),
  }
}
