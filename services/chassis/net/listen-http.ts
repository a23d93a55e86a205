import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { PortAddress } from './taken-ports.ts'

/** With `reusePort`, the kernel spreads connections over all processes that bind the port. */
export type SharedAddress = PortAddress & { readonly reusePort?: boolean }

/** Resolves with the port, which the system chooses for 0. Rejects with a system error (`EADDRINUSE`, …). */
export function listenHttp(server: Server, address: SharedAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(address, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })
}

/**
 * Accepts no new connections, and closes idle ones. Resolves when all requests have ended; requests that
 * still run after `graceMs` are aborted.
 */
export function closeHttp(server: Server, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
