import { systemClock } from '@tollway/chassis/clock.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import { reservedNames } from '@tollway/grpc/reserved-names.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { healthCheckPath } from '@tollway/grpc/server/health.ts'
import type { BoundAddress, Call, Metadata, Method } from '@tollway/grpc/server.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import { askPeer, bytesCodec, decisionPath, type HostPort, isDecided, type Outcome } from './ask-peer.ts'
import type { Comparison } from './comparison.ts'
import { withoutHits } from './read-requests.ts'
import { ShadowQueue } from './shadow-queue.ts'

/** As many as the reference accepts, which has no limit. */
const maxConcurrentStreams = 1_000_000
const drainMs = 5_000

export interface ProxyOptions {
  readonly listen: HostPort
  readonly reference: string
  readonly candidate: string
  /** The candidate reads the counters after the reference has counted in them. */
  readonly sharedCounters: boolean
  /** The timeout of each call of the candidate. Calls of the reference have the caller's deadline. */
  readonly timeoutMs: number
  onDefect(path: string, error: unknown): void
}

export interface Proxy {
  readonly address: BoundAddress
  /** Waits for the running calls, and then for those of the candidate, 5 s each; then it drops the rest. */
  close(): Promise<void>
}

/**
 * Starts a gRPC server that passes each call to the reference, with its metadata and deadline, and answers
 * with the reference's answer. The call is sent to the candidate afterwards, and the answers are compared.
 * Rejects when the address cannot be bound.
 */
export async function startProxy(options: ProxyOptions, comparison: Comparison): Promise<Proxy> {
  const { reference, candidate, sharedCounters, timeoutMs } = options
  const clients = { reference: createGrpcClient(reference), candidate: createGrpcClient(candidate) }
  const shadows = new ShadowQueue()
  let calls = 0

  function shadow(request: Uint8Array, expected: Outcome): void {
    if (!isDecided(expected)) {
      comparison.addUndecided(expected)
      return
    }
    calls += 1
    const place = `call ${calls}`
    const run = async () => {
      const message = sharedCounters ? withoutHits(request) : request
      const found = await askPeer(clients.candidate, message, { timeoutMs })
      comparison.add({ place, request, reference: expected, candidate: found })
    }
    const report = (error: unknown) => options.onDefect(decisionPath, error)
    const drop = () => comparison.addDropped(expected)
    if (!shadows.add({ bytes: request.length, run: () => run().catch(report), drop })) drop()
  }

  const decide: Method<Uint8Array, Uint8Array> = {
    ...bytesCodec,
    path: decisionPath,
    kind: 'unary',
    async handle(request, call) {
      const outcome = await askPeer(clients.reference, request, optionsOf(call))
      shadow(request, outcome)
      if ('error' in outcome) throw forwardedError(outcome.error)
      return outcome.answer
    },
  }
  const server = createGrpcServer({
    methods: [decide, passThrough(healthCheckPath, clients.reference)],
    limits: { maxConcurrentStreams },
    onDefect: options.onDefect,
  })
  return {
    address: await server.listen(options.listen),
    async close() {
      await server.drain(drainMs)
      await shadows.close(drainMs)
      clients.reference.close()
      clients.candidate.close()
    },
  }
}

function passThrough(path: string, client: GrpcClient): Method<Uint8Array, Uint8Array> {
  return {
    ...bytesCodec,
    path,
    kind: 'unary',
    async handle(request, call) {
      try {
        return await client.unary(path, bytesCodec, request, optionsOf(call))
      } catch (error) {
        throw error instanceof GrpcError ? forwardedError(error) : error
      }
    },
  }
}

function optionsOf({ metadata, signal, deadlineMs }: Call) {
  return {
    metadata,
    signal,
    timeoutMs: deadlineMs === undefined ? undefined : Math.max(deadlineMs - systemClock.monotonicMs(), 0),
  }
}

/** The library also reports fields of the transport as metadata, which a server must not send. */
function forwardedError({ code, message, trailers = new Map() }: GrpcError): GrpcError {
  const kept: Metadata = new Map([...trailers].filter(([name]) => !reservedNames.has(name)))
  return new GrpcError(statusName(code), message, kept)
}
