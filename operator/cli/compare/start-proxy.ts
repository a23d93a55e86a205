import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { HostPort } from './ask-peer.ts'
import type { ComparisonReport } from './comparison.ts'
import { startShadowFeed, startShadowThread } from './shadow-feed.ts'
import type { ShadowTask } from './shadow-messages.ts'

const drainMs = 5_000
/** A connection without bytes for this long has no call in progress, as far as the proxy can see. */
const quietMs = 100

export interface ProxyOptions extends ShadowTask {
  readonly listen: HostPort
  readonly reference: HostPort
  onDefect(error: unknown): void
}

export interface Proxy {
  readonly address: HostPort
  /** Rejects if the comparison has failed. */
  report(): Promise<ComparisonReport>
  /**
   * Waits for quiet connections, then for the calls of the candidate, 5 s each; then it drops the rest.
   * Rejects if the comparison has failed.
   */
  close(): Promise<ComparisonReport>
}

/** A connection of a caller with its connection to the reference. */
interface Pair {
  lastMs: number
  end(): void
}

/**
 * Starts a proxy that passes the bytes of each connection to the reference and back, without reading them.
 * A thread gets a copy, reads the calls in it, and sends them to the candidate. Rejects when the address
 * cannot be bound.
 */
export async function startProxy({ listen, reference, onDefect, ...task }: ProxyOptions): Promise<Proxy> {
  const { candidate, sharedCounters, timeoutMs, compared } = task
  const feed = await startShadowFeed(
    startShadowThread({ candidate, sharedCounters, timeoutMs, compared }),
    onDefect,
  )
  const pairs = new Set<Pair>()
  const server = createServer({ noDelay: true, allowHalfOpen: true }, join)
  server.listen(listen)
  try {
    await once(server, 'listening')
  } catch (error) {
    await feed.close(0)
    throw error
  }
  const { address: host, port } = server.address() as AddressInfo

  function join(caller: Socket): void {
    const upstream = connect({ ...reference, noDelay: true, allowHalfOpen: true })
    const copy = feed.open()
    const pair: Pair = {
      lastMs: performance.now(),
      end() {
        caller.destroySoon()
        upstream.destroySoon()
        if (pairs.delete(pair)) copy.end()
      },
    }
    pairs.add(pair)
    function pass(from: Socket, to: Socket, direction: Direction): void {
      from.pipe(to)
      from.on('data', (bytes: Buffer) => {
        pair.lastMs = performance.now()
        copy.add(direction, bytes)
      })
      // A close follows each error.
      from.on('error', () => {})
      from.once('close', pair.end)
    }
    pass(caller, upstream, 'request')
    pass(upstream, caller, 'answer')
  }

  return {
    address: { host, port },
    report: () => feed.report(),
    async close() {
      server.close()
      const deadlineMs = performance.now() + drainMs
      while (pairs.size > 0) {
        const nowMs = performance.now()
        for (const pair of pairs) if (nowMs >= deadlineMs || nowMs - pair.lastMs >= quietMs) pair.end()
        if (pairs.size > 0) await setTimeout(quietMs)
      }
      return feed.close(drainMs)
    },
  }
}
