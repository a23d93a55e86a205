/** Finds out about peers that are gone without a word. */
export interface Keepalive {
  /** Something has come from the peer. */
  heard(): void
  /** The peer has begun to speak HTTP/2. Who has not in the first interval is given up. */
  established(): void
  stop(): void
}

export interface KeepaliveActions {
  /** Asks for a sign of life. */
  ask(): void
  giveUp(): void
}

/**
 * After an interval of silence asks; after another one gives up. Before that, what has already come is read: a
 * process that was stopped finds its timers due before the answers that wait in its sockets.
 */
export function startKeepalive(intervalMs: number, { ask, giveUp }: KeepaliveActions): Keepalive {
  let heard = false
  let asked = false
  let established = false

  let lastLook: NodeJS.Immediate | undefined
  const isSilent = () => !established || (asked && !heard)

  function check(): void {
    if (isSilent()) {
      lastLook = setImmediate(() => isSilent() && giveUp())
      return
    }
    asked = !heard
    heard = false
    if (asked) ask()
  }

  const timer = setInterval(check, intervalMs)
  return {
    heard() {
      heard = true
    },
    established() {
      established = true
    },
    stop() {
      clearInterval(timer)
      clearImmediate(lastLook)
    },
  }
}
