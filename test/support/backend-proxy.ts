import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { seededRandom } from './api-proxy.ts'
import { type BackendProtocol, countCommands } from './count-commands.ts'
import { waitFor } from './wait-for.ts'

/** What may go wrong on the way to Redis or memcached. A share, 0 to 1, is of the pieces of replies. */
export type BackendFault =
  /** Nobody listens; the connections that there are end. */
  | { readonly kind: 'refuse' }
  /** Connections are taken and end at once, and so do those that there are. */
  | { readonly kind: 'hang-up' }
  /** Connections are taken and stay open, and nothing goes on in any direction: a peer that was cut off. */
  | { readonly kind: 'silence' }
  /** Each reply comes that much later, and by chance up to `jitterMs` more; their order stays. */
  | { readonly kind: 'latency'; readonly ms: number; readonly jitterMs?: number }
  /** Replies of which only the first half comes, and then the connection ends. */
  | { readonly kind: 'cut'; readonly share: number }
  /** Replies in whose place something that is no reply comes. */
  | { readonly kind: 'garbage'; readonly share: number }
  /** Replies come in bits of so many bytes, with so long a pause after each. */
  | { readonly kind: 'drip'; readonly bytes: number; readonly everyMs: number }
  /** No command reaches the server: each is answered with this line. The connections before it are cut. */
  | { readonly kind: 'answer'; readonly line: string }

/** A way to Redis or memcached on which all can go wrong, by chance as a seed says. */
export interface BackendProxy {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly address: string
  /**
   * Resolves when the fault holds; it is the only one from then on. Nothing goes wrong any more when it is left
   * out, and what had to wait is delivered.
   */
  setFault(fault?: BackendFault): Promise<void>
  /** How many connections, replies or commands were struck. */
  struck(): number
  stop(): Promise<void>
}

export interface BackendProxyOptions {
  readonly targetPort: number
  readonly seed: number
  /** What the clients speak; Redis's when left out. */
  readonly protocol?: BackendProtocol
}

/** Looks like a reply of neither, whatever is made of its beginning. */
const garbageBytes = 64
const waitMs = 5

export async function startBackendProxy(options: BackendProxyOptions): Promise<BackendProxy> {
  const { targetPort, seed, protocol = 'redis' } = options
  const random = seededRandom(seed)
  const clients = new Set<Socket>()
  let fault: BackendFault | undefined
  let struck = 0

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
      } else if (!upstream.destroyed) upstream.write(bytes)
    })
    const replies = relay(upstream, (bytes, cameMs) => deliver(client, bytes, cameMs))
    // What came before the end is still delivered, for a server may say something and hang up.
    upstream.on('close', () => replies().then(() => client.destroy()))
  }

  async function deliver(client: Socket, bytes: Buffer, cameMs: number): Promise<void> {
    await whileSilent(client)
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

  /** Goes on in one piece when the fault is over. */
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
      if (next?.kind === 'refuse') {
        server?.close()
        server = undefined
      } else {
        // While nobody listens the system may lend the port to somebody's outgoing connection.
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

/** By chance one of all kinds, as `random` says. */
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

/** Takes what comes, piece by piece. Answers how to wait until all that has come so far was taken. */
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
