import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'

/** Messages stay encoded, since an operator without the Lease passes them on. */
export const encodedCodec: Codec<Uint8Array, Uint8Array> = {
  decode: bytes => bytes.slice(),
  encode: bytes => bytes,
}

/** The operator with the Lease, and the path of the method. */
interface Upstream {
  readonly client: GrpcClient
  readonly signal: AbortSignal
  readonly path: string
}

/** Passes a session on to the operator with the Lease, in both directions, until either side ends it. */
export async function* passOn(
  { client, signal: leaderSignal, path }: Upstream,
  reports: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const call = client.bidi(path, encodedCodec, { signal: AbortSignal.any([signal, leaderSignal]) })
  const sent = (async () => {
    for await (const report of reports) await call.write(report)
    call.end()
  })()
  // The end of the stream below reports it.
  sent.catch(() => {})
  try {
    yield* call.messages
  } catch (error) {
    throw new GrpcError('UNAVAILABLE', `the operator with the Lease: ${(error as Error).message}`)
  }
}
