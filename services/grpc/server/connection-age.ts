import type { GrpcLimits } from '../server.ts'

/**
 * The age of a connection varies by this share, so that connections of one moment do not all end together.
 */
const jitter = 0.1

interface AgingConnection {
  /** Asks the peer to start no more calls on this connection. */
  drain(): void
  /** Aborts the running calls, and closes the connection. */
  cut(): void
}

/**
 * Drains an old connection, and aborts its running calls after the grace period. Returns a function that
 * cancels this.
 *
 * @param random uniform in [0, 1)
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
