import type { Server } from 'node:http'

/** Rejects with a system error (`EADDRINUSE`, …) when the address cannot be bound. */
export function listenHttp(server: Server, host: string, port: number, reusePort: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Takes no new connection, lets running calls end for `graceMs`, and cuts the rest. */
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
