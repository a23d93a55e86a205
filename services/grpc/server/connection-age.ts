import type { GrpcLimits } from '../server.ts'

/**
 * The share by which the age limit of a connection varies at random, so that connections that began together
 * do not end together.
 */
const jitter = 0.1

interface AgingConnection {
  /** Asks the peer to start no more calls on this connection. */
  drain(): void
  /** Aborts the calls that still run, and closes the connection. */
  cut(): void
}

/**
 * Starts the timers that drain a connection at its age limit, and cut it after the grace period. Returns a
 * function that stops them.
 *
 * @param random returns a number uniform in [0, 1)
 */
export function startAging(
  { maxConnectionAgeMs, maxConnectionAgeGraceMs }: GrpcLimits,
  random: () => number,
  connection: AgingConnection,
): () => void {
  if (maxConnectionAgeMs <= 0) return () => {}
  const ageMs = maxConnectionAgeMs * (1 - jitter + 2 * jitter * random())
  let timer = setTimeout(() => {
    connection.drain()
    if (maxConnectionAgeGraceMs > 0) timer = setTimeout(() => connection.cut(), maxConnectionAgeGraceMs)
  }, ageMs)
  return () => clearTimeout(timer)
}
