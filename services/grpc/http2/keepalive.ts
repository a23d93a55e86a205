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

/** After an interval of silence asks; after another one gives up. */
export function startKeepalive(intervalMs: number, { ask, giveUp }: KeepaliveActions): Keepalive {
  let heard = false
  let asked = false
  let established = false

  function check(): void {
    if (!established || (asked && !heard)) {
      giveUp()
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
    stop: () => clearInterval(timer),
  }
}
