import { createReadStream } from 'node:fs'
import { fromBinary, fromJsonString, toBinary } from '@bufbuild/protobuf'
import type { GrpcClient } from '@tollway/grpc/client/client.ts'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { decodeDecisionJson } from '@tollway/ratelimit/servers/decode-decision-json.ts'
import { describeFileError } from '../read-input.ts'
import type { Comparison } from './comparison.ts'
import { type CallOutcome, callPeer, isDecided } from './peer.ts'

const maxLineBytes = 1_000_000
const newline = 0x0a

interface RecordedRequest {
  /** The number of the line of the request, from 1. */
  readonly line: number
  readonly message: Uint8Array
}

/**
 * Reads a file with the JSON of a RateLimitRequest in each line; `-` is the standard input. Keeps one line in
 * memory.
 *
 * @throws Error that names the file and the line, if a line is not such a request or is longer than 1,000,000
 * bytes, or if the file has no requests
 */
export async function* readRequests(file: string): AsyncGenerator<RecordedRequest> {
  const name = file === '-' ? 'standard input' : file
  let requests = 0
  for await (const { line, bytes } of readLines(readChunks(file, name), name)) {
    if (bytes.every(byte => byte <= 0x20)) continue
    requests += 1
    yield { line, message: encodeLine(`${name}:${line}`, bytes) }
  }
  if (requests === 0) throw new Error(`${name}: no requests found`)
}

/** @throws Error that names the file */
async function* readChunks(file: string, name: string): AsyncGenerator<Buffer> {
  try {
    yield* file === '-' ? process.stdin : createReadStream(file)
  } catch (error) {
    throw new Error(`${name}: ${describeFileError(error)}`)
  }
}

async function* readLines(chunks: AsyncIterable<Buffer>, name: string) {
  let line = 1
  let parts: Buffer[] = []
  let length = 0
  const take = (part: Buffer) => {
    parts.push(part)
    length += part.length
    if (length > maxLineBytes)
      throw new Error(`${name}:${line}: the line is longer than ${maxLineBytes} bytes`)
  }
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      take(chunk.subarray(start, end))
      yield { line, bytes: Buffer.concat(parts) }
      line += 1
      parts = []
      length = 0
      start = end + 1
    }
    take(chunk.subarray(start))
  }
  yield { line, bytes: Buffer.concat(parts) }
}

function encodeLine(place: string, bytes: Buffer): Uint8Array {
  try {
    const { domain, descriptors } = decodeDecisionJson(bytes)
    if (domain === '') throw new Error('domain: must not be empty')
    if (descriptors.length === 0) throw new Error('descriptors: must not be empty')
    return toBinary(RateLimitRequestSchema, fromJsonString(RateLimitRequestSchema, bytes.toString()))
  } catch (error) {
    throw new Error(`${place}: is not a rate limit request: ${escapeControls((error as Error).message)}`)
  }
}

/** Such a request reads the counters without changing them. */
export function withoutHits(message: Uint8Array): Uint8Array {
  const request = fromBinary(RateLimitRequestSchema, message)
  for (const descriptor of request.descriptors) descriptor.hitsAddend = 0n
  return toBinary(RateLimitRequestSchema, request)
}

/** The run ends when a service does not decide this many requests in a row. */
const maxFailuresInRow = 20

interface Replay {
  readonly requests: AsyncIterable<RecordedRequest>
  readonly reference: GrpcClient
  readonly candidate: GrpcClient
  /**
   * Whether both services use the same counters. The candidate only reads them, after the reference has
   * counted.
   */
  readonly sharedCounters: boolean
  readonly timeoutMs: number
  /** When it aborts, the run ends before the next request. */
  readonly signal: AbortSignal
}

/**
 * Sends one request at a time, so that both services count in the same order. Resolves with the reason why
 * the run ended early; undefined if it did not.
 */
export async function replayRequests(replay: Replay, comparison: Comparison): Promise<string | undefined> {
  const { requests, reference, candidate, sharedCounters, timeoutMs, signal } = replay
  const failures = { reference: 0, candidate: 0 }
  for await (const { line, message } of requests) {
    if (signal.aborted) return undefined
    const expected = callPeer(reference, message, { timeoutMs })
    if (sharedCounters) await expected
    const found = callPeer(candidate, sharedCounters ? withoutHits(message) : message, { timeoutMs })
    const outcomes = { reference: await expected, candidate: await found }
    comparison.add({ place: `line ${line}`, request: message, ...outcomes })
    for (const name of ['reference', 'candidate'] as const) {
      failures[name] = isDecided(outcomes[name]) ? 0 : failures[name] + 1
      if (failures[name] < maxFailuresInRow) continue
      const cause = reason(outcomes[name])
      return `line ${line}: the ${name} answered none of ${maxFailuresInRow} requests: ${cause}`
    }
  }
  return undefined
}

const reason = (outcome: CallOutcome) => ('error' in outcome ? outcome.error.message : '')
