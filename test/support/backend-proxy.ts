import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { seededRandom } from './api-proxy.ts'
import { type BackendProtocol, countCommands } from './count-commands.ts'
import { waitFor } from './wait-for.ts'

/** The faults of the connection to Redis or memcached. A share, 0 to 1, is of the chunks of replies. */
export type BackendFault =
  /** The port has no listener; open connections end. */
  | { readonly kind: 'refuse' }
  /** Connections are accepted and closed at once, and open ones end. */
  | { readonly kind: 'hang-up' }
  /** Connections are accepted and stay open without data in either direction: a partitioned peer. */
  | { readonly kind: 'silence' }
  /** Each reply is delayed by `ms`, plus a random time of at most `jitterMs`, in order. */
  | { readonly kind: 'latency'; readonly ms: number; readonly jitterMs?: number }
  /** Replies are truncated to their first half, and the connection ends. */
  | { readonly kind: 'cut'; readonly share: number }
  /** Replies are replaced by garbage. */
  | { readonly kind: 'garbage'; readonly share: number }
  /** Replies arrive in parts of `bytes` bytes, with a pause after each. */
  | { readonly kind: 'drip'; readonly bytes: number; readonly everyMs: number }
  /**
   * The reply to the `nth` chunk of commands with this text (1 is the next one) is lost: the connection ends
   * instead. Nothing else is affected.
   */
  | { readonly kind: 'lose-reply'; readonly to: string; readonly nth: number }
  /** No command reaches the server: each is answered with this line. Earlier connections are closed. */
  | { readonly kind: 'answer'; readonly line: string }

/** A proxy to Redis or memcached with seeded faults. */
export interface BackendProxy {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly address: string
  /**
   * Replaces the fault, and resolves when it is active. Without an argument it removes the fault, and
   * delivers delayed data.
   */
  setFault(fault?: BackendFault): Promise<void>
  /** Returns the number of affected connections, replies or commands. */
  struck(): number
  stop(): Promise<void>
}

export interface BackendProxyOptions {
  readonly targetPort: number
  readonly seed: number
  /** The protocol of the clients. Defaults to Redis. */
  readonly protocol?: BackendProtocol
}

/** Not the beginning of a reply in either protocol. */
const garbageBytes = 64
const waitMs = 5

export async function startBackendProxy(options: BackendProxyOptions): Promise<BackendProxy> {
  const { targetPort, seed, protocol = 'redis' } = options
  const random = seededRandom(seed)
  const clients = new Set<Socket>()
  let fault: BackendFault | undefined
  let struck = 0
  /** The chunks with the text of `lose-reply` so far, and the client whose next reply is lost. */
  let chunksToLose = 0
  let losing: Socket | undefined

  async function whileSilent(client: Socket): Promise<void> {
    while (fault?.kind === 'silence' && !client.destroyed) await pause(waitMs)
  }

  function strikes(share: number): boolean {
    const hit = random() < share
    if (hit) struck += 1
    return hit
  }

  function accept(client: Socket): void {
    client.on('error', () => {})
    if (fault?.kind === 'hang-up') {
      struck += 1
      client.destroy()
      return
    }
    const upstream = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
    upstream.on('error', () => {})
    const commands = countCommands(protocol)
    clients.add(client)
    client.on('close', () => {
      clients.delete(client)
      upstream.destroy()
    })
    relay(client, async bytes => {
      await whileSilent(client)
      if (fault?.kind === 'answer') {
        const count = commands(bytes)
        struck += count
        client.write(`${fault.line}\r\n`.repeat(count))
        return
      }
      if (fault?.kind === 'lose-reply' && bytes.includes(fault.to)) {
        chunksToLose += 1
        if (chunksToLose === fault.nth) losing = client
      }
      if (!upstream.destroyed) upstream.write(bytes)
    })
    const replies = relay(upstream, (bytes, cameMs) => deliver(client, bytes, cameMs))
    // Data before the end is still delivered, since a server may reply and then close.
    upstream.on('close', () => replies().then(() => client.destroy()))
  }

  async function deliver(client: Socket, bytes: Buffer, cameMs: number): Promise<void> {
    await whileSilent(client)
    if (client === losing) {
      losing = undefined
      struck += 1
      client.destroy()
      return
    }
    switch (fault?.kind) {
      case 'latency': {
        struck += 1
        await pause(Math.max(0, cameMs + fault.ms + random() * (fault.jitterMs ?? 0) - performance.now()))
        break
      }
      case 'drip': {
        struck += 1
        return drip(client, bytes, fault.bytes, fault.everyMs)
      }
      case 'cut': {
        if (!strikes(fault.share)) break
        client.end(bytes.subarray(0, bytes.length / 2))
        return
      }
      case 'garbage': {
        if (!strikes(fault.share)) break
        client.write(
          Buffer.from(Array.from({ length: garbageBytes }, () => 0x80 | Math.floor(random() * 128))),
        )
        return
      }
    }
    if (client.writable) client.write(bytes)
  }

  /** Sends the rest in one piece when the fault is removed. */
  async function drip(client: Socket, bytes: Buffer, size: number, everyMs: number): Promise<void> {
    let from = 0
    for (; fault?.kind === 'drip' && from < bytes.length && client.writable; from += size) {
      client.write(bytes.subarray(from, from + size))
      await pause(everyMs)
    }
    if (client.writable) client.write(bytes.subarray(from))
  }

  function cutAll(): void {
    for (const client of clients) client.destroy()
  }

  let server: Server | undefined = await listen(0, accept)
  const { port } = server.address() as AddressInfo

  return {
    port,
    address: `127.0.0.1:${port}`,
    struck: () => struck,
    async setFault(next) {
      fault = next
      chunksToLose = 0
      if (next?.kind === 'refuse') {
        server?.close()
        server = undefined
      } else {
        // While the port has no listener, the system may use it for an outgoing connection.
        server ??= await waitFor('the port of the proxy', () => listen(port, accept))
      }
      if (next !== undefined && ['refuse', 'hang-up', 'answer'].includes(next.kind)) cutAll()
    },
    async stop() {
      fault = undefined
      server?.close()
      cutAll()
    },
  }
}

/** Returns a random fault of any kind. */
export function randomFault(random: () => number): BackendFault {
  const kinds: readonly BackendFault[] = [
    { kind: 'refuse' },
    { kind: 'hang-up' },
    { kind: 'silence' },
    { kind: 'latency', ms: Math.ceil(random() * 50), jitterMs: 50 },
    { kind: 'cut', share: random() },
    { kind: 'garbage', share: random() },
    { kind: 'drip', bytes: Math.ceil(random() * 4), everyMs: Math.ceil(random() * 10) },
    { kind: 'answer', line: '-LOADING Redis is loading the dataset in memory' },
  ]
  return kinds[Math.floor(random() * kinds.length)] ?? { kind: 'silence' }
}

/** Passes on chunks one at a time. Returns a function that waits until all received chunks were passed on. */
function relay(from: Socket, take: (bytes: Buffer, cameMs: number) => Promise<void>): () => Promise<void> {
  let taken = Promise.resolve()
  from.on('data', bytes => {
    const cameMs = performance.now()
    taken = taken.then(() => take(bytes, cameMs))
  })
  return () => taken
}

function listen(port: number, accept: (client: Socket) => void): Promise<Server> {
  const server = createServer({ noDelay: true }, accept)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
