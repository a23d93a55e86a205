import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Budgets, ReserveRequest, ReserveResponse } from '../budgets.ts'
import { maxParts } from '../limiter/decision.ts'
import type { StatCounter, Stats } from '../stats/stats.ts'
import { readDescriptor } from './decode-decision-request.ts'
import { delimited, messageSize, uintSize, varint, writeHead, writeUint } from './encode-decision.ts'
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
    handle: (request: In) => Out | Promise<Out>,
  ): Method<In | GrpcError, Out> => {
    // The statistic exists from the first call on: without one, there are only those of envoyproxy/ratelimit.
    let requests: StatCounter | undefined
    return {
      path: `/tollway.ratelimit.v1.Budgets/${name}`,
      kind: 'unary',
      decode: orError(decode),
      encode,
      handle(request) {
        requests ??= stats.counter(`ratelimit_server.${name}.total_requests`)
        requests.value += 1
        if (request instanceof GrpcError) throw request
        return handle(request)
      },
    }
  }
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
      encodeExpiry,
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
        request.ttlMs = reader.durationMs(2)
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
    else if (field === 2 && second === 'ttl') ttlMs = reader.durationMs(2)
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

function encodeReserve(answer: ReserveResponse): Uint8Array {
  if (answer.result === 'reservation') {
    const { id, remaining, expiresAtMs } = answer
    const size = messageSize(id.length) + uintSize(remaining) + timeSize(expiresAtMs)
    const bytes = Buffer.allocUnsafe(messageSize(size))
    let at = writeHead(bytes, 0, delimited(1), size)
    at = writeHead(bytes, at, delimited(1), id.length)
    at += bytes.write(id, at, 'latin1')
    at = writeUint(bytes, at, varint(2), remaining)
    writeTime(bytes, at, delimited(3), expiresAtMs)
    return bytes
  }
  const { remaining, nextChanceMs } = answer
  const size = uintSize(remaining) + (nextChanceMs === undefined ? 0 : timeSize(nextChanceMs))
  const bytes = Buffer.allocUnsafe(messageSize(size))
  const at = writeUint(bytes, writeHead(bytes, 0, delimited(2), size), varint(1), remaining)
  if (nextChanceMs !== undefined) writeTime(bytes, at, delimited(2), nextChanceMs)
  return bytes
}

function encodeRemaining({ remaining }: { readonly remaining: number }): Uint8Array {
  const bytes = Buffer.allocUnsafe(uintSize(remaining))
  writeUint(bytes, 0, varint(1), remaining)
  return bytes
}

function encodeExpiry({ expiresAtMs }: { readonly expiresAtMs: number }): Uint8Array {
  const bytes = Buffer.allocUnsafe(timeSize(expiresAtMs))
  writeTime(bytes, 0, delimited(1), expiresAtMs)
  return bytes
}

/** Splits a time for a google.protobuf.Timestamp, rounded up to whole milliseconds. */
function splitTime(unixMs: number): { readonly seconds: number; readonly nanos: number } {
  const wholeMs = Math.ceil(unixMs)
  return { seconds: Math.floor(wholeMs / 1000), nanos: (wholeMs % 1000) * 1_000_000 }
}

function timeSize(unixMs: number): number {
  const { seconds, nanos } = splitTime(unixMs)
  return messageSize(uintSize(seconds) + uintSize(nanos))
}

function writeTime(bytes: Buffer, start: number, tag: number, unixMs: number): number {
  const { seconds, nanos } = splitTime(unixMs)
  const at = writeHead(bytes, start, tag, uintSize(seconds) + uintSize(nanos))
  return writeUint(bytes, writeUint(bytes, at, varint(1), seconds), varint(2), nanos)
}
