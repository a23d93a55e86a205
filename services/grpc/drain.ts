import type { HealthTable } from './server.ts'
import { GrpcError } from './status.ts'

/** What a server can do on its way to the end, for the sequence below. */
export interface Drainable {
  /** Takes no more connections, and tells every peer by GOAWAY to begin no more calls. */
  refuseMore(): void
  /** Resolves when no call runs but health watches, which would run for ever. */
  onlyWatchesLeft(): Promise<void>
  cutCalls(error: GrpcError): void
  /** Resolves when no connection is left. Those that are left after the grace are closed. */
  closed(graceOver: Promise<void>): Promise<void>
}

/** The `drain` of a server, as its contract has it. */
export function createDrain(
  health: HealthTable | undefined,
  server: Drainable,
): (graceMs: number) => Promise<void> {
  const { promise: graceOver, resolve: endGrace } = Promise.withResolvers<void>()
  let drained: Promise<void> | undefined

  async function drain(): Promise<void> {
    health?.drain()
    // A turn of the event loop, in which each Watch says NOT_SERVING before anything else happens to it.
    await new Promise(resolve => setImmediate(resolve))
    server.refuseMore()
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
