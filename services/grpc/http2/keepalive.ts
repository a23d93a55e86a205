/** Detects peers that have disappeared without closing the connection. */
export interface Keepalive {
  /** Records data from the peer. */
  heard(): void
  /**
   * Records that the peer uses HTTP/2. A peer that does not do so within the first interval is disconnected.
   */
  established(): void
  stop(): void
}

export interface KeepaliveActions {
  /** Sends a ping. */
  ask(): void
  giveUp(): void
}

/**
 * Pings after an interval of silence, and gives up after another one. Received data is read before: a process
 * that was suspended finds its timers due before the answers that wait in its sockets.
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
