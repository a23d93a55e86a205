import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { encodedCodec, sessionPath } from '../session-codec.ts'

/** Passes a session on to the operator with the Lease, in both directions, until either side ends it. */
export async function* passOn(
  { client, signal: leaderSignal }: { readonly client: GrpcClient; readonly signal: AbortSignal },
  reports: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const call = client.bidi(sessionPath, encodedCodec, { signal: AbortSignal.any([signal, leaderSignal]) })
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
