/** Detects peers that have disappeared without closing the connection. */
export interface Keepalive {
  /** Records data from the peer. */
  onData(): void
  /**
   * Records that the peer uses HTTP/2. A peer that does not do so within the first interval is disconnected.
   */
  established(): void
  stop(): void
}

interface KeepaliveActions {
  /** Sends a ping. */
  ping(): void
  disconnect(): void
}

/**
 * Pings after an interval of silence, and disconnects after another one. Received data is read first: in a
 * process that was suspended, timers are due before the answers that wait in its sockets are read.
 */
export function startKeepalive(intervalMs: number, { ping, disconnect }: KeepaliveActions): Keepalive {
  let heard = false
  let asked = false
  let established = false

  let lastCheck: NodeJS.Immediate | undefined
  const isSilent = () => !established || (asked && !heard)

  function check(): void {
    if (isSilent()) {
      lastCheck = setImmediate(() => isSilent() && disconnect())
      return
    }
    asked = !heard
    heard = false
    if (asked) ping()
  }

  const timer = setInterval(check, intervalMs)
  return {
    onData() {
      heard = true
    },
    established() {
      established = true
    },
    stop() {
      clearInterval(timer)
      clearImmediate(lastCheck)
    },
  }
}
