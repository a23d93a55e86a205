import { createServer, type Server } from 'node:net'

export interface PortAddress {
  readonly host: string
  readonly port: number
}

/** A port that cannot be had, and why by the system's word. */
export interface TakenPort<Wish extends PortAddress> {
  readonly wish: Wish
  readonly error: NodeJS.ErrnoException
}

/**
 * Binds each port once, alone, and lets go of it; answers those that cannot be had, in the order of the wishes.
 * Processes that are to share a port (SO_REUSEPORT) need this look: next to a foreign process that shares too
 * their bind would succeed, and a part of the calls would go to the other.
 */
export async function findTakenPorts<Wish extends PortAddress>(
  wishes: readonly Wish[],
): Promise<readonly TakenPort<Wish>[]> {
  const taken: TakenPort<Wish>[] = []
  const servers: Server[] = []
  for (const wish of wishes) {
    try {
      servers.push(await bind(wish))
    } catch (error) {
      taken.push({ wish, error: error as NodeJS.ErrnoException })
    }
  }
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  return taken
}

/** A port that a setting asks for. */
export interface PortSetting extends PortAddress {
  /** That of the setting: `GRPC_PORT`. */
  readonly name: string
}

/** What is wrong with the ports that settings ask for, one text a port: `GRPC_PORT: listen EADDRINUSE: …`. */
export async function findPortProblems(settings: readonly PortSetting[]): Promise<readonly string[]> {
  const taken = await findTakenPorts(settings)
  return taken.map(({ wish, error }) => `${wish.name}: ${error.message}`)
}

function bind({ host, port }: PortAddress): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port, exclusive: true }, () => resolve(server))
  })
}
