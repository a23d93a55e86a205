import type { HealthTable } from '../server.ts'
import { GrpcError } from '../status.ts'

/** The operations of a server that a drain needs. */
interface Drainable {
  /** Accepts no more connections, and sends GOAWAY to every peer, so that they start no more calls. */
  stopAccepting(): void
  /** Resolves when no calls run except health watches, which do not end by themselves. */
  onlyWatchesLeft(): Promise<void>
  cutCalls(error: GrpcError): void
  /** Resolves when no connection is left. The remaining ones are closed after the grace period. */
  closed(graceOver: Promise<void>): Promise<void>
}

/** Creates the `drain` of a server; see `GrpcServer`. */
export function createDrain(
  health: HealthTable | undefined,
  server: Drainable,
): (graceMs: number) => Promise<void> {
  const { promise: graceOver, resolve: endGrace } = Promise.withResolvers<void>()
  let drained: Promise<void> | undefined

  async function drain(): Promise<void> {
    health?.drain()
    // Waits for a turn of the event loop, in which each Watch sends NOT_SERVING before its connection is
    // drained.
    await new Promise(resolve => setImmediate(resolve))
    server.stopAccepting()
    await Promise.race([server.onlyWatchesLeft(), graceOver])
    server.cutCalls(new GrpcError('UNAVAILABLE', 'the server is shutting down'))
    await server.closed(graceOver)
  }

  return graceMs => {
    const timer = setTimeout(endGrace, graceMs)
    drained ??= drain()
    return drained.finally(() => clearTimeout(timer))
  }
}
