import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import { createHandshakes } from '@tollway/grpc/server/tls-handshakes.ts'
import { defaultLimits, type ServerTls } from '@tollway/grpc/server.ts'
import type { ComparisonReport } from './comparison.ts'
import { connectToPeer, formatAddress, type Peer, type PeerAddress } from './peer.ts'
import { type ConnectionFeed, type ShadowTask, startShadowFeed, startShadowProcess } from './shadow-feed.ts'

const drainMs = 5_000
/** A connection without bytes for this long has no call in progress, as far as the proxy can see. */
const quietMs = 100

interface ProxyOptions extends ShadowTask {
  readonly listen: PeerAddress
  /** Callers need no TLS without it. */
  readonly listenTls?: ServerTls | undefined
  readonly reference: Peer
  readonly referenceTls?: ClientTls | undefined
  onDefect(error: unknown): void
}

interface Proxy {
  readonly address: PeerAddress
  /** Rejects if the comparison has failed. */
  report(): Promise<ComparisonReport>
  /**
   * Waits for quiet connections, then for the calls of the candidate, 5 s each; then it drops the rest.
   * Rejects if the comparison has failed.
   */
  close(): Promise<ComparisonReport>
}

/**
 * Starts a proxy that passes the bytes of each connection to the reference and back, without reading them.
 * With TLS they are decrypted in between. A child process gets a copy, reads the calls in it, and sends them
 * to the candidate. Rejects when the address cannot be bound.
 */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const { listen, listenTls, reference, referenceTls: tls, onDefect, ...task } = options
  const feed = await startShadowFeed(startShadowProcess(task), onDefect)
  const pairs = new Set<ConnectionPair>()

  function join(caller: Socket): void {
    const upstream = connectToPeer(reference, tls)
    const pair = new ConnectionPair(caller, upstream, feed.open(), () => pairs.delete(pair))
    pairs.add(pair)
    const connected = once(upstream, tls === undefined ? 'connect' : 'secureConnect')
    connected.catch(error =>
      onDefect(`connect to the reference ${formatAddress(reference)}: ${describeConnectionError(error)}`),
    )
  }

  const handshakes = listenTls && createHandshakes(listenTls, defaultLimits, join)
  const server = createServer(
    { noDelay: true, allowHalfOpen: true, keepAlive: true },
    handshakes?.begin ?? join,
  )
  try {
    await once(server.listen(listen), 'listening')
  } catch (error) {
    await feed.close(0)
    throw error
  }
  const { address: host, port } = server.address() as AddressInfo
  return {
    address: { host, port },
    report: () => feed.report(),
    async close() {
      server.close()
      handshakes?.close()
      await drain(pairs)
      return feed.close(drainMs)
    },
  }
}

/** Ends each connection when it is quiet, and all that are left after `drainMs`. */
async function drain(pairs: ReadonlySet<ConnectionPair>): Promise<void> {
  const deadlineMs = performance.now() + drainMs
  while (pairs.size > 0) {
    const nowMs = performance.now()
    for (const pair of pairs) if (nowMs >= deadlineMs || nowMs - pair.lastMs >= quietMs) pair.end()
    if (pairs.size > 0) await setTimeout(quietMs)
  }
}

/** A connection of a caller with its connection to the reference. */
class ConnectionPair {
  readonly #caller: Socket
  readonly #upstream: Socket
  readonly #copy: ConnectionFeed
  readonly #onEnd: () => void
  /** The time of the last bytes. */
  lastMs = performance.now()

  constructor(caller: Socket, upstream: Socket, copy: ConnectionFeed, onEnd: () => void) {
    this.#caller = caller
    this.#upstream = upstream
    this.#copy = copy
    this.#onEnd = onEnd
    this.#pass(caller, upstream, 'request')
    this.#pass(upstream, caller, 'answer')
  }

  end(): void {
    this.#caller.destroySoon()
    this.#upstream.destroySoon()
    this.#copy.end()
    this.#onEnd()
  }

  #pass(from: Socket, to: Socket, direction: Direction): void {
    from.pipe(to)
    from.on('data', (bytes: Buffer) => {
      this.lastMs = performance.now()
      this.#copy.add(direction, bytes)
    })
    // A close follows each error.
    from.on('error', () => {})
    from.once('close', () => this.end())
  }
}
