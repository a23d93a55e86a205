import { createServer, type Server } from 'node:net'

/**
 * Ports lie above those that people know and below those that the kernel takes for connections of its own choice, in
 * blocks. A process has a block for as long as it listens on its first port, so that tests which run side by side never
 * give out the same port while nobody has bound it yet.
 */
const lowest = 18_100
const blockSize = 250
const blocks = 56
/** Above the last of them there is room for those that `ownPorts` of the operator reckons from another. */
const givenOfBlock = 100

let block: Promise<number> | undefined
let next = 1

/** Ports of the loopback address that nobody has right now; none is given out twice. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) {
    if (next > givenOfBlock) {
      block = undefined
      next = 1
    }
    block ??= claimBlock()
    const offset = next++
    const port = (await block) + offset
    const probe = await listen(port)
    if (probe === undefined) continue
    await new Promise(resolve => probe.close(resolve))
    ports.push(port)
  }
  return ports
}

/** Answers the first port of a block that is nobody else's from now on. */
async function claimBlock(): Promise<number> {
  for (let tried = 0; tried < blocks; tried++) {
    const first = lowest + ((process.pid + tried) % blocks) * blockSize
    const claim = await listen(first)
    if (claim === undefined) continue
    claim.unref()
    return first
  }
  throw new Error(`every block of ports from ${lowest} on has an owner; is something left of tests before?`)
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
