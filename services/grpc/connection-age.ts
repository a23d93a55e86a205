import type { GrpcLimits } from './server.ts'

/** The age of a connection varies by this share, so that those of one moment do not all go in one. */
const jitter = 0.1

export interface AgingConnection {
  /** Tells the peer to begin no more calls here. */
  drain(): void
  /** Ends the calls that still run, and the connection. */
  cut(): void
}

/**
 * Tells an old connection to go, and cuts what still runs on it after the grace. Returns what stops that.
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
