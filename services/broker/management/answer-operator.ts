import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type ReconnectingCall, receiveAll } from '@tollway/grpc/client/reconnecting-call.ts'
import {
  type BrokerAnswerSchema,
  BrokerReportSchema,
  type BrokerRequest,
  BrokerRequestSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { createFeedCall, type FeedCallParts, type FeedCallTiming } from '@tollway/xds-client/feed-call.ts'

/** What an operator may read. Reading changes nothing. */
export interface BrokerPages {
  /** Returns the list of requests as JSON of at most this many bytes. */
  list(maxBytes: number): string
  /** Resolves with JSON; undefined if no request has the key. Rejects if the preview cannot be made now. */
  preview(key: string): Promise<string | undefined>
}

interface OperatorAnswersOptions extends FeedCallParts {
  /** The identity of this broker in the metadata of its node. */
  readonly identity: { readonly uid: string; readonly pod: string; readonly namespace: string }
  readonly pages: BrokerPages
  readonly timing?: FeedCallTiming
}

const defaultTiming: FeedCallTiming = {
  backoff: { initialMs: 200, maxMs: 5_000 },
  unsupportedMs: 60_000,
}

/** Further requests are not answered while the operator does not read. */
const maxWaiting = 8

const sessionPath = '/tollway.operator.v1.StreamReports/Session'

const codec = {
  encode: (report: Uint8Array) => report,
  decode: (bytes: Uint8Array) => fromBinary(BrokerRequestSchema, bytes),
}

type Report = NonNullable<MessageInitShape<typeof BrokerReportSchema>['report']>
type Answer = MessageInitShape<typeof BrokerAnswerSchema>

const encode = (report: Report) => toBinary(BrokerReportSchema, create(BrokerReportSchema, { report }))

/** Answers requests about the streams of this broker, over the connection of the feed. */
export function createOperatorAnswers(options: OperatorAnswersOptions): ReconnectingCall {
  const { connection, identity, pages, timing = defaultTiming } = options

  async function callOnce(signal: AbortSignal): Promise<void> {
    const call = connection.client().bidi(sessionPath, codec, { signal })
    let waiting = 0
    async function answer(request: BrokerRequest): Promise<void> {
      if (waiting >= maxWaiting) return
      waiting += 1
      try {
        const value = await createAnswer(request, pages)
        if (value !== undefined) await call.write(encode({ case: 'answer', value }))
      } finally {
        waiting -= 1
      }
    }
    await call.write(encode({ case: 'hello', value: { ...identity } }))
    // A write fails only when the call fails, which is reported here.
    await receiveAll(call.messages, request => void answer(request).catch(() => {}))
  }

  return createFeedCall({ ...options, what: 'answer the operator', timing, callOnce })
}

/** Returns undefined for a request that this version does not know. */
async function createAnswer({ request }: BrokerRequest, pages: BrokerPages): Promise<Answer | undefined> {
  if (request.case === 'list') {
    return { id: request.value.id, json: pages.list(request.value.maxBytes) }
  }
  if (request.case !== 'preview') return undefined
  const { id, key } = request.value
  try {
    return { id, json: (await pages.preview(key)) ?? '' }
  } catch (error) {
    return { id, problem: (error as Error).message }
  }
}
