import { createServer, type Server } from 'node:net'

/**
 * The ports are above well-known ones and below the kernel's ephemeral range, in blocks. A process owns a
 * block for as long as it listens on its first port, so that concurrent tests never return the same port
 * before it is bound.
 */
const lowest = 18_100
const blockSize = 250
const blocks = 56
/** Ports above the last one are left for those that `ownPorts` of the operator derives from another. */
const givenOfBlock = 100

let block: Promise<number> | undefined
let next = 1

/** Returns unused ports of the loopback address; none is returned twice. */
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

/** Claims a block for this process, and returns its first port. */
async function claimBlock(): Promise<number> {
  for (let tried = 0; tried < blocks; tried++) {
    const first = lowest + ((process.pid + tried) % blocks) * blockSize
    const claim = await listen(first)
    if (claim === undefined) continue
    claim.unref()
    return first
  }
  throw new Error(
    `every block of ports from ${lowest} on is in use; are processes of earlier tests still running?`,
  )
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
