/** A longer expiry is read as a time since 1970. */
const maxRelativeSeconds = 30 * 24 * 60 * 60
/** Memcached reads an expiry as 32 bits with a sign. */
const maxExpiry = 2 ** 31 - 1

/** Adds to a counter that is there. */
export function incrRequest(key: string, by: number): string {
  return `incr ${key} ${by}\r\n`
}

/** Makes a counter of 0 where there is none; `expiry` as of `expiryOf`. */
export function addRequest(key: string, expiry: number): string {
  return `add ${key} 0 ${expiry} 1\r\n0\r\n`
}

/** Changes the expiry of a counter that is there. */
export function touchRequest(key: string, expiry: number): string {
  return `touch ${key} ${expiry}\r\n`
}

/** Looks at one counter. */
export function getRequest(key: string): string {
  return `get ${key}\r\n`
}

/**
 * How memcached is told that a counter is to be kept for at least so many seconds: from now on, or beyond 30
 * days by the time of its end. It counts whole seconds of a clock of its own, so that a life of n ends up to
 * a second early; hence one more.
 */
export function expiryOf(expirySeconds: number, nowMs: number): number {
  const seconds = expirySeconds + 1
  if (seconds <= maxRelativeSeconds) return seconds
  return Math.min(maxExpiry, Math.ceil(nowMs / 1000) + seconds)
}
