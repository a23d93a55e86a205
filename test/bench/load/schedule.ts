/** The due times of the calls of a load, and their connections. */
export interface Schedule {
  /** Milliseconds after the start of the load, ascending. */
  readonly dueMs: Float64Array
  readonly connections: Uint16Array
}

/** Returns calls at equal intervals, on the connections in turn. The first call is due at once. */
export function evenSchedule(callsPerSecond: number, durationMs: number, connections: number): Schedule {
  const calls = callsIn(callsPerSecond, durationMs)
  return {
    dueMs: Float64Array.from({ length: calls }, (_, call) => (call * 1000) / callsPerSecond),
    connections: Uint16Array.from({ length: calls }, (_, call) => call % connections),
  }
}

/**
 * Returns calls of many independent callers: the intervals have the exponential distribution (Poisson
 * arrivals), and each call is on a random connection. The schedule of a seed is the same in every run.
 *
 * @param seed a positive integer
 */
export function randomSchedule(
  callsPerSecond: number,
  durationMs: number,
  connections: number,
  seed: number,
): Schedule {
  const random = createRandom(seed)
  let atMs = 0
  const calls = callsIn(callsPerSecond, durationMs)
  const dueMs = Float64Array.from({ length: calls }, () => {
    atMs -= (Math.log(1 - random()) * 1000) / callsPerSecond
    return atMs
  })
  return { dueMs, connections: Uint16Array.from({ length: calls }, () => Math.floor(random() * connections)) }
}

function callsIn(callsPerSecond: number, durationMs: number): number {
  return Math.max(1, Math.floor((callsPerSecond * durationMs) / 1000))
}

/** Returns a generator of numbers in [0, 1): Mulberry32. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
