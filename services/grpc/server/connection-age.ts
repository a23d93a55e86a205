import type { GrpcLimits } from '../server.ts'

/**
 * The share by which the age limit varies at random, so that connections that began together do not end
 * together.
 */
const jitter = 0.1

interface AgingConnection {
  /** Asks the peer for no more calls on this connection. */
  drain(): void
  /** Aborts running calls, and closes the connection. */
  cut(): void
}

/**
 * Drains a connection at its age limit, and cuts it after the grace period, until the returned function is
 * called.
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
