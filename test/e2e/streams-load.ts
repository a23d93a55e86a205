import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { fromBinary } from '@bufbuild/protobuf'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import { StatusSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { animationServices } from '../../services/broker/servers/grpc-methods.ts'
import { decodeText, encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { animationStatusCodes } from '../../services/broker/wire/status.ts'
import { encodeAnimationIds } from '../../services/broker/wire/testing/encode-messages.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Period } from './load.ts'

/** The stream of all requests here; see `encodeText`. */
export const streamId = 's'
/** 30 messages a second, and requests of some seconds, as people speak. */
export const frameMs = 33
/** A stream pauses when a message is missing. */
export const pauseMs = 2 * frameMs
const framesOfRequest = 60
const betweenRequestsMs = 100

/** `host:port` of a broker that takes calls now. */
export type ChooseBroker = () => Promise<string>

const service = animationServices.specified
const identity = (bytes: Uint8Array) => bytes

async function withClient<T>(choose: ChooseBroker, use: (client: GrpcClient) => Promise<T>): Promise<T> {
  const client = createGrpcClient(await choose())
  try {
    return await use(client)
  } finally {
    client.close()
  }
}

/**
 * Sends a request with header, `frames` messages and status. Resolves with the code of the broker's status,
 * which comes earlier if the broker ends the request.
 */
export function pushRequest(
  choose: ChooseBroker,
  requestId: string,
  frames = framesOfRequest,
): Promise<string> {
  return withClient(choose, async client => {
    const codec = { encode: identity, decode: (bytes: Uint8Array) => fromBinary(StatusSchema, bytes) }
    const call = client.bidi(`/${service}/PushAnimationDataStream`, codec)
    let answered = false
    const answer = firstCode(call.messages).finally(() => {
      answered = true
    })
    // A write of a lost call rejects, too.
    answer.catch(() => {})
    await call.write(encodeText('header', requestId))
    for (let frame = 1; frame <= frames && !answered; frame++) {
      await call.write(encodeText(`${frame}`))
      await pause(frameMs)
    }
    if (!answered) await call.write(encodeText('SUCCESS'))
    call.end()
    return await answer
  })
}

async function firstCode(messages: AsyncIterable<{ readonly code: number }>): Promise<string> {
  for await (const { code } of messages) return animationStatusCodes[code] ?? `${code}`
  return 'no answer'
}

/** Returns the messages that a consumer of a complete request must get. */
export function wholeRequest(requestId: string, frames = framesOfRequest): readonly string[] {
  const texts = Array.from({ length: frames }, (_, index) => `${index + 1}`)
  return [`header ${requestId}`, ...texts, 'SUCCESS']
}

export interface Producer {
  /** The answers by request. */
  readonly answers: ReadonlyMap<string, string>
  /** Ends the load after the current request; resolves then. */
  stop(): Promise<void>
}

/**
 * Sends one request after the other, each to a broker that takes calls then. A request that could not be sent,
 * because the address of the broker was removed meanwhile, goes to another one.
 *
 * @param prefix the begin of their names, which are then numbered
 */
export function startProducer(choose: ChooseBroker, prefix = 'r'): Producer {
  const answers = new Map<string, string>()
  let stopped = false

  async function produce(): Promise<void> {
    for (let number = 1; !stopped; number++) {
      const requestId = `${prefix}${number}`
      const send = () => pushRequest(choose, requestId).catch((error: unknown) => `${error}`)
      let answer = await send()
      while (answer.includes('no connection to ')) answer = await send()
      answers.set(requestId, answer)
      await pause(betweenRequestsMs)
    }
  }

  const running = produce()
  return {
    answers,
    async stop() {
      stopped = true
      await running
    },
  }
}

export interface Consumer {
  /** The messages by request, in the form of `decodeText`. */
  readonly received: ReadonlyMap<string, readonly string[]>
  /** The number of changes to another broker. */
  readonly moves: number
  /** The times between two messages of a request that are at least `pauseMs` long. */
  readonly pauses: readonly Period[]
  stop(): Promise<void>
}

/** Follows the stream, and resumes it at another broker when its call ends. */
export function startConsumer(choose: ChooseBroker): Consumer {
  const received = new Map<string, string[]>()
  /** The broker's names of the requests that have not ended. */
  const runs = new Map<string, string>()
  const stopping = new AbortController()
  let moves = 0
  const pauses: Period[] = []
  let lastMs = Number.NaN

  /** A repeated header names the request that continues. */
  function take(text: string, current: string): string {
    const nowMs = performance.now()
    const header = /^header (.*)$/.exec(text)?.[1]
    const request = header ?? current
    const run = /^INFO run (\S+), the next is message \d+$/.exec(text)?.[1]
    if (run !== undefined) {
      runs.set(request, run)
      return request
    }
    if (text === 'SUCCESS') runs.delete(request)
    const before = received.get(request) ?? []
    if (before.at(-1) === 'SUCCESS' || (header !== undefined && before.length > 0)) return request
    if (before.length > 0 && nowMs - lastMs >= pauseMs) pauses.push({ beginMs: lastMs, endMs: nowMs })
    lastMs = nowMs
    received.set(request, [...before, text])
    return request
  }

  async function pull(client: GrpcClient): Promise<void> {
    const counts = [...runs].map(([request, run]) => `${run}=${received.get(request)?.length ?? 0}`)
    const metadata: Metadata = new Map([['tollway-received', ['none', ...counts.slice(-20)]]])
    const codec = { encode: encodeAnimationIds, decode: identity }
    const { signal } = stopping
    const call = client.bidi(`/${service}/PullAnimationDataStream`, codec, { metadata, signal })
    void call.write({ streamId, requestId: '', targetObjectId: '' })
    call.end()
    let current = ''
    for await (const bytes of call.messages) current = take(decodeText(bytes), current)
  }

  async function consume(): Promise<void> {
    while (!stopping.signal.aborted) {
      await withClient(choose, pull).catch(() => pause(10))
      moves += 1
    }
  }

  const running = consume()
  return {
    received,
    get moves() {
      return moves - (stopping.signal.aborted ? 1 : 0)
    },
    pauses,
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** Waits until the consumer has every message of the request, and rejects if one is missing or repeated. */
export async function receivesWhole({ received }: Consumer, request: string, frames?: number): Promise<void> {
  const whole = wholeRequest(request, frames)
  const has = () => received.get(request)?.at(-1) === whole.at(-1)
  await waitFor(`the whole request ${request}`, has, 10_000).catch(() => {})
  assert.deepEqual(received.get(request), whole, `${request}, of ${[...received.keys()]}`)
}
