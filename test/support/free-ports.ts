import { createServer } from 'node:net'

/** Below those that the kernel takes for connections of its own choice, which would come in between. */
const lowest = 15_000
const highest = 32_000

/** What this process has given out, and may not have taken yet. */
const given = new Set<number>()

/** Ports of the loopback address that nobody has right now, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest))
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    ports.push(port)
  }
  return ports
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
