import type { Clock } from '../clock.ts'

/** Returns a function that creates the line of the Date header (RFC 9110, 6.6.1), once a second. */
export function createDateLine(clock: Clock): () => string {
  let second = Number.NaN
  let line = ''
  return () => {
    const now = Math.floor(clock.nowMs() / 1000)
    if (now !== second) {
      second = now
      line = `Date: ${new Date(now * 1000).toUTCString()}\r\n`
    }
    return line
  }
}
