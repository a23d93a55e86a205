import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import { Handshakes } from '@tollway/grpc/server/tls-handshakes.ts'
import { defaultLimits, type ServerTls } from '@tollway/grpc/server.ts'
import type { ComparisonReport } from './comparison.ts'
import { connectToPeer, formatAddress, type Peer, type PeerAddress } from './peer.ts'
import { type ShadowConnection, ShadowFeed, type ShadowTask, startShadowProcess } from './shadow-feed.ts'

const drainMs = 5_000
/** A connection without bytes for this time counts as having no call in progress. */
const quietMs = 100

interface ProxyOptions {
  readonly task: ShadowTask
  readonly listen: PeerAddress
  /** Undefined for callers without TLS. */
  readonly listenTls: ServerTls | undefined
  readonly reference: Peer
  readonly referenceTls: ClientTls | undefined
  readonly onDefect: (error: unknown) => void
}

/**
 * Starts a proxy that forwards the bytes of each connection to the reference and back, unread; with TLS, it
 * decrypts and encrypts them. A child process gets a copy of the bytes, reads the calls in them, and sends
 * these calls to the candidate.
 *
 * The methods of the proxy reject if the comparison has failed. `close` waits at most 5 s for calls in
 * progress, then at most 5 s for those of the candidate, and drops the rest.
 *
 * @throws Error if the address cannot be bound
 */
export async function startProxy(options: ProxyOptions) {
  const { task, listen, listenTls, reference, referenceTls: tls, onDefect } = options
  const feed = await ShadowFeed.start(startShadowProcess(task), onDefect)
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

  const handshakes = listenTls && new Handshakes(listenTls, defaultLimits, join)
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
  const address: PeerAddress = { host, port }
  return {
    address,
    report: () => feed.report(),
    async close(): Promise<ComparisonReport> {
      server.close()
      handshakes?.close()
      await drain(pairs)
      return feed.close(drainMs)
    },
  }
}

/**
 * Ends each connection when it has been quiet for `quietMs`, and after `drainMs` every connection that is
 * left.
 */
async function drain(pairs: ReadonlySet<ConnectionPair>): Promise<void> {
  const deadlineMs = performance.now() + drainMs
  while (pairs.size > 0) {
    const nowMs = performance.now()
    for (const pair of pairs) if (nowMs >= deadlineMs || nowMs - pair.lastMs >= quietMs) pair.end()
    if (pairs.size > 0) await setTimeout(quietMs)
  }
}

class ConnectionPair {
  readonly #caller: Socket
  readonly #upstream: Socket
  readonly #copy: ShadowConnection
  readonly #onEnd: () => void
  /** When the last bytes were forwarded, by the monotonic clock, in milliseconds. */
  lastMs = performance.now()

  constructor(caller: Socket, upstream: Socket, copy: ShadowConnection, onEnd: () => void) {
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
    // `close` follows each error.
    from.on('error', () => {})
    from.once('close', () => this.end())
  }
}
