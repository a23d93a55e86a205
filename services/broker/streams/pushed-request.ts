import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import { pluralize } from '@tollway/chassis/text.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { MediaTiming, type RouteStats } from '../broker-stats.ts'
import type { Route } from '../routes/route.ts'
import {
  type LoggedRequest,
  LogRejection,
  type LogWriter,
  type Opening,
  type RequestEnd,
  type WriterEnd,
} from '../stream-log/stream-log.ts'
import { type SavedRules, StreamRules, type Violation } from '../stream-rules.ts'
import { type AnimationIds, IdTooLong } from '../wire/animation-ids.ts'
import type { HeaderMessage, Message } from '../wire/message.ts'
import { MalformedMessage } from '../wire/protobuf-reader.ts'
import { readMessage } from '../wire/read-message.ts'
import { encodeStatusMessage, type Status } from '../wire/status.ts'
import { findRejection, type TokenHash } from './admission.ts'
import {
  formatToken,
  hashProducer,
  hashSecret,
  newSecret,
  type PresentedToken,
  toResumption,
} from './resume-token.ts'
import { findRoute, type StreamContext } from './stream-context.ts'

/** The number of received messages, with the header, and of their bytes. */
export interface ReceivedTotals {
  readonly messages: number
  readonly bytes: number
}

/** Thrown when a message breaks a rule in mode reject. Producer and consumers get the error as a Status. */
export class RuleBroken extends ExpectedError {}

interface PushedHeader {
  readonly bytes: Uint8Array
  readonly token: TokenHash
  readonly traceparent: string
}

/**
 * Begins the request of a push with its first message.
 *
 * @throws GrpcError if the push is not accepted, RuleBroken if a rule rejects the message; no request begins
 *   then
 */
export async function beginRequest(
  context: StreamContext,
  { bytes, token, traceparent }: PushedHeader,
): Promise<PushedRequest> {
  const { stats } = context
  const header = expectHeader(parseMessage(bytes, 0))
  const { ids, sourceServiceId } = header
  const { streamId, targetObjectId } = ids
  const route = context.routes.choose({ sourceServiceId, streamId, targetObjectId })
  const rejection = findRejection(route, 'push', token)
  if (rejection !== undefined) throw rejection
  assertSize(bytes, 0, route)
  const rules = new StreamRules(route.rules)
  const routeStats = stats.route(route.name)
  const warnings = checkRules(rules, routeStats, header, 0)
  const secret = newSecret()
  const { resumeGraceMs } = context.limits
  const resume = { tokenHash: hashSecret(secret, token), graceMs: resumeGraceMs }
  const start: Progress = { messages: 1, bytes: bytes.length, lastPart: 'header', rules: rules.save() }
  const opening = {
    ids,
    sourceServiceId,
    route: route.name,
    bearerHash: identifyProducer(ids, route, token),
    // A message may be a part of a larger buffer, which would stay in memory.
    header: copyBytes(bytes),
    limits: ringLimits(route),
    traceparent,
    ...(resumeGraceMs === 0 ? {} : { resume, progress: start }),
  }
  if (route.concurrentRequests === 'refuse') await assertAlone(context, header, route, token)
  const { streams } = route.limits
  const takeStream = () => context.requestsOfRoute.take(route.name, streams)
  const isCounted = takeStream() || ((await replaceLost(context, opening)) && takeStream())
  if (!isCounted) throw tooManyStreams(route)
  try {
    const writer = await openOrReplaceLost(context, opening)
    routeStats.counters.pushes += 1
    context.onBegun(writer.request)
    countReceived(routeStats, bytes)
    const pushed = new PushedRequest(context, {
      writer,
      route,
      rules,
      header,
      token,
      start,
      resumeToken: resumeGraceMs === 0 ? undefined : formatToken(writer.request.key, 0, secret),
    })
    for (const warning of warnings) writer.append(encodeStatusMessage(warning))
    return pushed
  } catch (error) {
    context.requestsOfRoute.release(route.name)
    throw toGrpcError(error)
  }
}

/**
 * Continues after the last message in the log.
 *
 * @throws GrpcError if the request cannot be continued
 */
export async function continueRequest(
  context: StreamContext,
  presented: PresentedToken,
): Promise<PushedRequest> {
  const secret = newSecret()
  const resumed = await context.log.resume(toResumption(presented, secret)).catch((error: unknown) => {
    throw toGrpcError(error)
  })
  const { writer } = resumed
  const route = findRoute(context, writer.request)
  const token = presented.bearer
  const rejection = findRejection(route, 'push', token)
  if (rejection !== undefined) {
    writer.suspend({ how: 'lost', status: { code: 'ERROR', message: rejection.message } })
    throw rejection
  }
  const header = expectHeader(parseMessage(resumed.header, 0))
  const rules = new StreamRules(route.rules)
  const start = resumed.progress as Progress
  rules.check(header, 0)
  rules.restore(start.rules)
  context.stats.route(route.name).counters.producers_resumed += 1
  // There is no limit here: a running request is not rejected because others have begun meanwhile.
  context.requestsOfRoute.take(route.name, Number.POSITIVE_INFINITY)
  return new PushedRequest(context, {
    writer,
    route,
    rules,
    header,
    token,
    start,
    resumeToken: formatToken(writer.request.key, resumed.uses, secret),
  })
}

/** What another broker needs to continue with the messages of the producer. */
interface Progress extends ReceivedTotals {
  readonly lastPart: Message['part']
  readonly rules: SavedRules
}

/** Copies the bytes to memory outside of Node's pool of buffers. */
function copyBytes(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}

interface PushedRequestOptions {
  readonly writer: LogWriter
  readonly route: Route
  readonly rules: StreamRules
  readonly header: HeaderMessage
  readonly start: Progress
  readonly token: TokenHash
  readonly resumeToken: string | undefined
}

/**
 * A request whose producer is connected to this process: checks its messages against the rules of the route,
 * and passes them to the log.
 */
export class PushedRequest {
  readonly request: LoggedRequest
  readonly route: Route
  /** With this token the producer can continue in another call; undefined if resumption is disabled. */
  readonly resumeToken: string | undefined
  readonly #context: StreamContext
  readonly #writer: LogWriter
  readonly #rules: StreamRules
  readonly #token: TokenHash
  readonly #stats: RouteStats
  readonly #timing: MediaTiming
  readonly #received: { messages: number; bytes: number }
  #lastPart: Message['part']

  constructor(context: StreamContext, options: PushedRequestOptions) {
    const { writer, route, rules, header, start } = options
    this.request = writer.request
    this.route = route
    this.resumeToken = options.resumeToken
    this.#context = context
    this.#writer = writer
    this.#rules = rules
    this.#token = options.token
    this.#stats = context.stats.route(route.name)
    this.#timing = new MediaTiming(header.startTimeCode, this.#stats)
    this.#received = { messages: start.messages, bytes: start.bytes }
    this.#lastPart = start.lastPart
  }

  /** The totals so far. */
  get received(): ReceivedTotals {
    return this.#received
  }

  /**
   * @returns false if the caller should await `ready` before the next message
   * @throws GrpcError for an invalid message, RuleBroken for a violation in mode reject
   */
  relay(bytes: Uint8Array): boolean {
    const number = this.#received.messages
    this.#received.messages += 1
    this.#received.bytes += bytes.length
    assertSize(bytes, number, this.route)
    const message = parseMessage(bytes, number)
    const warnings = checkRules(this.#rules, this.#stats, message, number)
    for (const warning of warnings) this.#writer.append(encodeStatusMessage(warning))
    countReceived(this.#stats, bytes)
    this.#lastPart = message.part
    if (message.part === 'data') this.#timing.measure(message, this.#context.clock.nowMs())
    return this.#writer.append(bytes, this.#progress())
  }

  async ready(): Promise<void> {
    await this.#writer.ready()
  }

  /**
   * Completes the request, since the producer has sent everything. Returns the end for consumers, and the
   * answer to the producer.
   */
  complete(): { readonly end: RequestEnd; readonly answer: Status } {
    const broken = this.#rules.end(this.#received.messages)
    countViolations(this.#stats, broken)
    const rejected = broken.find(({ mode }) => mode === 'reject')
    const count = pluralize(this.#received.messages, 'message', 'messages')
    if (this.#lastPart === 'status' && rejected === undefined) {
      const summary = this.#rules.summary()
      const warnings = summary === '' ? '' : `; warnings: ${summary}`
      return { end: { how: 'completed' }, answer: { code: 'SUCCESS', message: `${count}${warnings}` } }
    }
    const message = rejected?.text ?? `the producer ended without a status after ${count}`
    const status: Status = { code: 'ERROR', message }
    return { end: { how: rejected ? 'refused' : 'lost', status }, answer: status }
  }

  /** Called once. Rejects with a `LogRejection`. */
  async end(end: WriterEnd): Promise<void> {
    this.#context.requestsOfRoute.release(this.route.name)
    if (end.how === 'lost') this.#stats.counters.producers_lost += 1
    if (end.how === 'interrupted') this.#stats.counters.requests_interrupted += 1
    if (this.#writer.endedBy === undefined && end.how !== 'continued') await this.#writer.end(end)
  }

  /**
   * Called instead of `end`: the request gets this end, unless its producer continues it within the grace
   * period. Until then, the request counts as a running one of its route.
   */
  suspend(lost: RequestEnd): void {
    this.#stats.counters.producers_suspended += 1
    this.#writer.onEnded(how => void this.end(how))
    this.#writer.suspend(lost)
  }

  onEnded(listener: (end: WriterEnd) => void): void {
    this.#writer.onEnded(listener)
  }

  /** Returns the error if the current routes do not accept the producer. */
  findRejection(): GrpcError | undefined {
    const route = findRoute(this.#context, this.request)
    return findRejection(route, 'push', this.#token)
  }

  #progress(): Progress | undefined {
    if (this.resumeToken === undefined) return undefined
    const { messages, bytes } = this.#received
    return { messages, bytes, lastPart: this.#lastPart, rules: this.#rules.save() }
  }
}

function expectHeader(message: Message): HeaderMessage {
  if (message.part !== 'header') {
    throw new RuleBroken(
      `order #0: ${message.part === 'none' ? 'nothing' : message.part} is found, a header is allowed as the first`,
    )
  }
  const { streamId, requestId, targetObjectId } = message.ids
  if (streamId === '' && requestId === '' && targetObjectId === '') {
    throw new GrpcError('INVALID_ARGUMENT', 'animation_ids: all three are empty, at least one is needed')
  }
  return message
}

function parseMessage(bytes: Uint8Array, number: number): Message {
  try {
    return readMessage(bytes)
  } catch (error) {
    if (!(error instanceof MalformedMessage || error instanceof IdTooLong)) throw error
    throw new GrpcError('INVALID_ARGUMENT', `message #${number}: ${error.message}`)
  }
}

function assertSize({ length }: Uint8Array, number: number, { limits }: Route): void {
  if (length <= limits.messageBytes) return
  throw new GrpcError(
    'RESOURCE_EXHAUSTED',
    `message #${number} has ${length} bytes, at most ${limits.messageBytes} are allowed`,
  )
}

/**
 * Returns the warnings for consumers: only the first violation of each rule.
 *
 * @throws RuleBroken for a violation in mode reject
 */
function checkRules(
  rules: StreamRules,
  routeStats: RouteStats,
  message: Message,
  number: number,
): readonly Status[] {
  const broken = rules.check(message, number)
  if (broken.length === 0) return noWarnings
  countViolations(routeStats, broken)
  const rejected = broken.find(({ mode }) => mode === 'reject')
  if (rejected !== undefined) throw new RuleBroken(rejected.text)
  return broken.filter(({ nth }) => nth === 1).map(({ text }) => ({ code: 'WARNING', message: text }))
}

const noWarnings: readonly Status[] = []

function countViolations({ violations }: RouteStats, broken: readonly Violation[]): void {
  for (const { rule } of broken) violations[rule] += 1
}

function countReceived({ counters }: RouteStats, { length }: Uint8Array): void {
  counters.messages_in += 1
  counters.bytes_in += length
}

/**
 * Returns a hash by which a producer is recognized; empty if the route requires no tokens and so cannot tell
 * producers apart.
 */
const identifyProducer = (ids: AnimationIds, { tokens }: Route, token: TokenHash) =>
  tokens.push.length === 0 ? '' : hashProducer(ids, token)

function tooManyStreams(route: Route): GrpcError {
  const many = pluralize(route.limits.streams, 'running request, which is', 'running requests, which are')
  return new GrpcError('RESOURCE_EXHAUSTED', `${describeRoute(route)} has ${many} all that it allows`)
}

async function openOrReplaceLost(context: StreamContext, opening: Opening): Promise<LogWriter> {
  try {
    return await context.log.open(opening)
  } catch (error) {
    const exists = error instanceof LogRejection && error.reason === 'exists'
    if (!exists) throw error
    await replaceLost(context, opening)
    return await context.log.open(opening)
  }
}

/**
 * Ends the request with these ids if its producer is lost and is the caller of this push. Returns whether a
 * request was ended.
 */
async function replaceLost(
  { log, stats }: StreamContext,
  lost: Pick<Opening, 'ids' | 'bearerHash' | 'route'>,
): Promise<boolean> {
  const ended = await log.endLost(lost).catch((error: unknown) => {
    throw toGrpcError(error)
  })
  if (ended) stats.route(lost.route).counters.producers_restarted += 1
  return ended
}

/**
 * For a route that allows one request at a time: rejects the push if another request of the stream and object
 * is running. If that request is lost and has the same producer, it is ended instead.
 */
async function assertAlone(
  context: StreamContext,
  { ids }: HeaderMessage,
  route: Route,
  token: TokenHash,
): Promise<void> {
  const other = context.log
    .list()
    .find(
      request =>
        !request.ended &&
        request.ids.requestId !== ids.requestId &&
        request.ids.streamId === ids.streamId &&
        request.ids.targetObjectId === ids.targetObjectId,
    )
  if (other === undefined) return
  const lost = { ids: other.ids, bearerHash: identifyProducer(other.ids, route, token), route: other.route }
  if (await replaceLost(context, lost)) return
  const running = `the request ${JSON.stringify(other.ids.requestId)} of this stream and object is running`
  throw new GrpcError('RESOURCE_EXHAUSTED', `${running}, and ${describeRoute(route)} takes one at a time`)
}

const describeRoute = ({ name }: Route) => (name === '' ? 'the default route' : `the route ${name}`)

function ringLimits({ limits, slowConsumers }: Route) {
  return {
    bytes: limits.bufferBytes,
    ms: limits.bufferSeconds * 1000,
    keepMs: limits.bufferSeconds * 1000,
    whenFull: slowConsumers === 'wait' ? 'wait' : 'trim',
  } as const
}

function toGrpcError(error: unknown): unknown {
  if (!(error instanceof LogRejection)) return error
  return new GrpcError(rejectionCodes[error.reason], error.message)
}

const rejectionCodes = {
  exists: 'ALREADY_EXISTS',
  interrupted: 'FAILED_PRECONDITION',
  unavailable: 'UNAVAILABLE',
  expired: 'NOT_FOUND',
  ended: 'FAILED_PRECONDITION',
  spent: 'FAILED_PRECONDITION',
  forged: 'PERMISSION_DENIED',
} as const
