import type { TestContext } from 'node:test'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import {
  decodeExportRequest,
  type ReceivedSpan,
} from '../../services/chassis/tracing/testing/span-collector.ts'

/** Starts a collector of OTLP over gRPC on loopback, until the test ends. */
export async function startGrpcCollector(
  t: Pick<TestContext, 'after'>,
): Promise<{ readonly url: string; readonly spans: readonly ReceivedSpan[] }> {
  const spans: ReceivedSpan[] = []
  const server = new Server()
  const asTheyAre = (bytes: Buffer) => bytes
  const exportMethod = {
    path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
    requestStream: false,
    responseStream: false,
    requestSerialize: asTheyAre,
    requestDeserialize: asTheyAre,
    responseSerialize: asTheyAre,
    responseDeserialize: asTheyAre,
  }
  server.addService(
    { export: exportMethod },
    {
      export(call: { readonly request: Buffer }, answer: (error: null, bytes: Buffer) => void) {
        spans.push(...decodeExportRequest(call.request))
        answer(null, Buffer.alloc(0))
      },
    },
  )
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error)
      else resolve(bound)
    })
  })
  t.after(() => server.forceShutdown())
  return { url: `http://127.0.0.1:${port}`, spans }
}
