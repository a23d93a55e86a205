import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Budgets, ReserveRequest, ReserveResponse } from '../budgets.ts'
import { maxParts } from '../limiter/decision.ts'
import type { Stats } from '../stats/stats.ts'
import { readDescriptor } from './decode-decision-request.ts'
import { orError } from './grpc-methods.ts'
import { ProtobufReader } from './wire-reader.ts'

/** The fields of a request about a reservation. A field that a method does not have is absent. */
interface ChangeRequest {
  readonly id: string
  readonly actual: number
  readonly ttlMs: number | undefined
}

/** Creates the methods of tollway.ratelimit.v1.Budgets. Field numbers are those of budgets.proto. */
export function budgetsMethods(budgets: Budgets, stats: Stats): readonly AnyMethod[] {
  const method = <In, Out>(
    name: string,
    decode: (bytes: Uint8Array) => In,
    encode: (answer: Out) => Uint8Array,
    handle: (request: In) => Promise<Out>,
  ): Method<In | GrpcError, Out> => ({
    path: `/tollway.ratelimit.v1.Budgets/${name}`,
    kind: 'unary',
    decode: orError(decode),
    encode,
    handle(request) {
      // The statistic exists from the first call on: without one, there are only those of envoyproxy/ratelimit.
      stats.counter(`ratelimit_server.${name}.total_requests`).value += 1
      if (request instanceof GrpcError) throw request
      return handle(request)
    },
  })
  return [
    method('Reserve', decodeReserve, encodeReserve, request => budgets.reserve(request)),
    method(
      'Commit',
      bytes => decodeChange(bytes, 'actual'),
      encodeRemaining,
      ({ id, actual }) => budgets.commit(id, actual),
    ),
    method(
      'Release',
      bytes => decodeChange(bytes, undefined),
      encodeRemaining,
      ({ id }) => budgets.release(id),
    ),
    method(
      'Extend',
      bytes => decodeChange(bytes, 'ttl'),
      ({ expiresAtMs }: { readonly expiresAtMs: number }) => encodeTime(1, expiresAtMs).finish(),
      ({ id, ttlMs }) => budgets.extend(id, ttlMs),
    ),
  ]
}

function decodeReserve(bytes: Uint8Array): ReserveRequest {
  const reader = new ProtobufReader(bytes)
  const request = {
    domain: '',
    descriptor: undefined as ReserveRequest['descriptor'],
    amount: 0,
    ttlMs: undefined as number | undefined,
    requestId: '',
  }
  while (reader.at < reader.length) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        request.domain = reader.string()
        break
      case 2:
        request.descriptor = readDescriptor(reader, maxParts)
        break
      case 3:
        request.amount = readAmount(reader, 'amount')
        break
      case 4:
        request.ttlMs = readDurationMs(reader)
        break
      case 5:
        request.requestId = reader.string()
        break
      default:
        reader.skip(tag, 1)
    }
  }
  return request
}

/** @param second the name of the field with the number 2 */
function decodeChange(bytes: Uint8Array, second: 'actual' | 'ttl' | undefined): ChangeRequest {
  const reader = new ProtobufReader(bytes)
  let id = ''
  let actual = 0
  let ttlMs: number | undefined
  while (reader.at < reader.length) {
    const tag = reader.tag()
    const field = tag >>> 3
    if (field === 1) id = reader.string()
    else if (field === 2 && second === 'actual') actual = readAmount(reader, 'actual')
    else if (field === 2 && second === 'ttl') ttlMs = readDurationMs(reader)
    else reader.skip(tag, 1)
  }
  return { id, actual, ttlMs }
}

function readAmount(reader: ProtobufReader, field: string): number {
  const amount = reader.uint64()
  if (Number.isSafeInteger(amount)) return amount
  throw new GrpcError(
    'INVALID_ARGUMENT',
    `${field}: expected at most ${Number.MAX_SAFE_INTEGER}, found about ${amount}`,
  )
}

/** Reads a google.protobuf.Duration. A negative one becomes -1, whatever its length. */
function readDurationMs(reader: ProtobufReader): number {
  const end = reader.messageEnd()
  let seconds = 0
  let nanos = 0
  while (reader.at < end) {
    const tag = reader.tag()
    if (tag >>> 3 === 1) seconds = reader.uint64()
    else if (tag >>> 3 === 2) nanos = reader.uint64()
    else reader.skip(tag, 2)
  }
  // A negative number is sent as a varint of 64 bits in two's complement.
  if (seconds >= 2 ** 63 || nanos >= 2 ** 63) return -1
  return seconds * 1000 + nanos / 1_000_000
}

function encodeReserve(answer: ReserveResponse): Uint8Array {
  if (answer.result === 'reservation') {
    const { id, remaining, expiresAtMs } = answer
    const reservation = new BinaryWriter().tag(1, 2).string(id)
    writeCount(reservation, 2, remaining)
    reservation.raw(encodeTime(3, expiresAtMs).finish())
    return new BinaryWriter().tag(1, 2).bytes(reservation.finish()).finish()
  }
  const { remaining, nextChanceMs } = answer
  const rejection = new BinaryWriter()
  writeCount(rejection, 1, remaining)
  if (nextChanceMs !== undefined) rejection.raw(encodeTime(2, nextChanceMs).finish())
  return new BinaryWriter().tag(2, 2).bytes(rejection.finish()).finish()
}

function encodeRemaining({ remaining }: { readonly remaining: number }): Uint8Array {
  const writer = new BinaryWriter()
  writeCount(writer, 1, remaining)
  return writer.finish()
}

function writeCount(writer: BinaryWriter, field: number, value: number): void {
  if (value > 0) writer.tag(field, 0).uint64(value)
}

/** Encodes a field with a google.protobuf.Timestamp, rounded up to whole milliseconds. */
function encodeTime(field: number, unixMs: number): BinaryWriter {
  const wholeMs = Math.ceil(unixMs)
  const time = new BinaryWriter().tag(1, 0).int64(Math.floor(wholeMs / 1000))
  const nanos = (wholeMs % 1000) * 1_000_000
  if (nanos > 0) time.tag(2, 0).int32(nanos)
  return new BinaryWriter().tag(field, 2).bytes(time.finish())
}
