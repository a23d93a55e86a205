/** Limits concurrent sends: a snapshot for hundreds of clients must not be in memory hundreds of times. */
export interface SendPermits {
  /**
   * Resolves, in the order of the calls, when this number of bytes may be encoded. The returned function
   * reports that they are sent; without it they count as sent after `maxHoldMs`.
   */
  take(bytes: number): Promise<() => void>
}

export interface SendPermitLimits {
  /** The maximum of bytes that are sent at once. A longer response is sent alone. */
  readonly maxBytes: number
  /** How long a client that does not read may keep others waiting. */
  readonly maxHoldMs: number
}

export function createSendPermits(limits: SendPermitLimits): SendPermits {
  const waiting: { readonly bytes: number; start(release: () => void): void }[] = []
  let bytesOnTheWay = 0

  function startNext(): void {
    for (;;) {
      const next = waiting[0]
      if (next === undefined) return
      if (bytesOnTheWay > 0 && bytesOnTheWay + next.bytes > limits.maxBytes) return
      waiting.shift()
      next.start(hold(next.bytes))
    }
  }

  function hold(bytes: number): () => void {
    bytesOnTheWay += bytes
    let held = true
    const release = () => {
      if (!held) return
      held = false
      clearTimeout(timer)
      bytesOnTheWay -= bytes
      startNext()
    }
    const timer = setTimeout(release, limits.maxHoldMs).unref()
    return release
  }

  return {
    take: bytes =>
      new Promise(start => {
        waiting.push({ bytes, start })
        startNext()
      }),
  }
}
