import { createServer, type Server } from 'node:net'

export interface PortWish {
  /** The setting that chooses the port: `GRPC_PORT`. */
  readonly name: string
  readonly host: string
  readonly port: number
}

/**
 * Binds each port once, alone, and lets go of it. Workers share their ports (SO_REUSEPORT), and next to a
 * foreign process that shares too their bind would succeed, and a part of the calls would go to the other.
 *
 * Rejects with one error that names every setting whose port cannot be had, and why.
 */
export async function assertPortsFree(wishes: readonly PortWish[]): Promise<void> {
  const problems: string[] = []
  const servers: Server[] = []
  for (const wish of wishes) {
    try {
      servers.push(await bind(wish))
    } catch (error) {
      problems.push(`${wish.name}: ${(error as Error).message}`)
    }
  }
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  if (problems.length > 0) throw new Error(problems.join('; '))
}

function bind({ host, port }: PortWish): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port, exclusive: true }, () => resolve(server))
  })
}
