import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import {
  CommitRequestSchema,
  CommitResponseSchema,
  ExtendRequestSchema,
  ExtendResponseSchema,
  ReleaseRequestSchema,
  ReleaseResponseSchema,
  ReserveRequestSchema,
  ReserveResponseSchema,
} from '@tollway/proto/tollway/ratelimit/v1/budgets'
import type { Cleanup } from './tollway.ts'

/** Creates a caller of tollway.ratelimit.v1.Budgets, with one connection. */
export function callBudgets(t: Cleanup, port: number) {
  const client = createGrpcClient(`127.0.0.1:${port}`)
  t.after(async () => client.close())
  const method =
    <In extends DescMessage, Out extends DescMessage>(name: string, request: In, response: Out) =>
    (init: MessageInitShape<In>) => {
      const codec = {
        encode: (message: MessageInitShape<In>) => toBinary(request, create(request, message)),
        decode: (bytes: Uint8Array) => fromBinary(response, bytes),
      }
      return client.unary(`/tollway.ratelimit.v1.Budgets/${name}`, codec, init)
    }
  return {
    reserve: method('Reserve', ReserveRequestSchema, ReserveResponseSchema),
    commit: method('Commit', CommitRequestSchema, CommitResponseSchema),
    release: method('Release', ReleaseRequestSchema, ReleaseResponseSchema),
    extend: method('Extend', ExtendRequestSchema, ExtendResponseSchema),
  }
}
