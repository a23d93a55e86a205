import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { PortAddress } from './taken-ports.ts'

/**
 * With `reusePort`, other processes may bind the port too, and the kernel spreads connections among all of
 * them.
 */
export type SharedAddress = PortAddress & { readonly reusePort?: boolean }

/**
 * Listens on the address. Resolves with the port, which the system chooses if the port of the address is 0.
 * Rejects with a system error (`EADDRINUSE`, …) when the address cannot be bound.
 */
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
 * Accepts no new connections, and closes idle ones. Resolves when all requests have ended; after `graceMs`
 * those that still run are aborted.
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
