import type { Clock } from '@tollway/chassis/clock.ts'
import { type Resend, resend, type Send } from '../batching/send.ts'
import type { Count, Increment } from '../batching/sum-equal-keys.ts'
import { needsExpiry } from '../batching/touched-keys.ts'
import { CountersError, maxCount } from '../counters.ts'
import type { CallStats } from './call-stats.ts'
import type { MemcachedConnection } from './connection.ts'
import { isMemcachedError, isValueReply, type MemcachedReply } from './reply-parser.ts'
import { addRequest, changeRequest, getRequest, toExpiry, touchRequest } from './request.ts'

export type SendCounts = Send<Increment, Count>

type Answer = Count | CountersError

const unexpectedText = 'memcached sent an unexpected reply'

/** The answer when memcached does not have the counter: nothing was counted. */
const missingCounter = new CountersError('memcached did not keep the counter')

/**
 * Counts exactly, before the caller is answered. `incr` does not create a counter. When this process touches
 * a key for the first time, it therefore writes an `add` of 0 before the `incr`, both in one write; memcached
 * ignores the `add` if the counter exists. That is one round trip, where envoyproxy/ratelimit takes up to
 * three: increment, add, increment again. When a hit needs a longer expiry than the one that was sent, a
 * `touch` comes before the `incr` instead. If memcached has dropped a counter that this process has touched,
 * the hit is sent again as a first touch.
 */
export function createCountSender(
  connection: MemcachedConnection,
  clock: Clock,
  calls: CallStats,
): SendCounts {
  return function count(items, onAnswers) {
    const { requests, requestCount, before } = writeItems(items, clock.nowMs())
    connection.send(requests, requestCount, (replies, problem) => {
      countReplies(calls, items, before, replies)
      const answers = readAnswers(items, before, replies)
      if (answers === undefined) {
        discardReplies(connection, onAnswers)
        return
      }
      const again: number[] = []
      const dropped = new Set<string>()
      for (const [position, item] of items.entries()) {
        const answer = answers[position]
        if (answer instanceof CountersError) item.touched.expirySentSeconds = 0
        const isDropped = answer === missingCounter && before[position] !== 'add'
        // A read after an increment of the same dropped key found no counter either, so it is repeated as
        // well.
        if (isDropped || (item.by === 0 && dropped.has(item.key))) again.push(position)
        if (isDropped) dropped.add(item.key)
      }
      if (again.length === 0) onAnswers(answers, problem)
      else resend(items, answers, [{ positions: again, send: count }], all => onAnswers(all, problem))
    })
  }
}

/** Sends a read for each item, whatever its increment is; the answers are the counters' current values. */
export function createReadSender(connection: MemcachedConnection, calls: CallStats): SendCounts {
  return (items, onAnswers) => {
    let requests = ''
    for (const { key } of items) requests += getRequest(key)
    connection.send(requests, items.length, (replies, problem) => {
      calls.countReads(items.map((_, position) => replies[position]))
      const answers = replies.map(toReadValue)
      if (hasOnlyExpected(answers)) onAnswers(answers, problem)
      else discardReplies(connection, onAnswers)
    })
  }
}

/** The request, if any, before the increment of an item: `add` creates the counter, `touch` prolongs it. */
type Before = 'add' | 'touch' | undefined

function findRequestBefore({ by, expirySeconds, touched }: Increment): Before {
  if (by === 0 || !needsExpiry(touched, expirySeconds)) return undefined
  return touched.expirySentSeconds === 0 ? 'add' : 'touch'
}

function writeItems(items: readonly Increment[], nowMs: number) {
  const before: Before[] = []
  let requests = ''
  let requestCount = items.length
  for (const item of items) {
    const { key, by, expirySeconds, jitterSeconds, touched } = item
    const kind = findRequestBefore(item)
    before.push(kind)
    if (kind !== undefined) {
      touched.expirySentSeconds = expirySeconds + jitterSeconds
      const expiry = toExpiry(touched.expirySentSeconds, nowMs)
      requests += kind === 'add' ? addRequest(key, expiry) : touchRequest(key, expiry)
      requestCount += 1
    }
    requests += by === 0 ? getRequest(key) : changeRequest(key, by)
  }
  return { requests, requestCount, before }
}

function countReplies(
  calls: CallStats,
  items: readonly Increment[],
  before: readonly Before[],
  replies: readonly MemcachedReply[],
): void {
  const looked: (MemcachedReply | undefined)[] = []
  let next = 0
  for (const [position, { by }] of items.entries()) {
    if (before[position] !== undefined) {
      if (before[position] === 'add') calls.countAdd(replies[next])
      next += 1
    }
    if (by === 0) looked.push(replies[next++])
    else calls.countIncrement(replies[next++])
  }
  if (looked.length > 0) calls.countReads(looked)
}

/** Returns the answers for which there are replies; undefined when any reply is not of the expected kind. */
function readAnswers(
  items: readonly Increment[],
  before: readonly Before[],
  replies: readonly MemcachedReply[],
): readonly Answer[] | undefined {
  const answers: (Answer | undefined)[] = []
  let next = 0
  for (const [position, item] of items.entries()) {
    const kind = before[position]
    const beforeReply = kind === undefined ? 'STORED' : replies[next++]
    const reply = replies[next++]
    if (beforeReply === undefined || reply === undefined) break
    const answer = item.by === 0 ? toReadValue(reply) : toCount(reply)
    // The error reply to `add` explains why there is no counter, so it is the answer.
    if (kind === 'add' && answer === missingCounter && isMemcachedError(beforeReply)) {
      answers.push(new CountersError(beforeReply.error))
    } else answers.push(kind === undefined || isReplyTo(kind, beforeReply) ? answer : undefined)
  }
  return hasOnlyExpected(answers) ? answers : undefined
}

function isReplyTo(kind: 'add' | 'touch', reply: MemcachedReply): boolean {
  if (isMemcachedError(reply)) return true
  return kind === 'add'
    ? reply === 'STORED' || reply === 'NOT_STORED'
    : reply === 'TOUCHED' || reply === 'NOT_FOUND'
}

/** Returns undefined, like `toReadValue`, for a reply of an unexpected kind. */
function toCount(reply: MemcachedReply): Answer | undefined {
  if (typeof reply === 'number' || typeof reply === 'bigint') return reply
  if (reply === 'NOT_FOUND') return missingCounter
  return isMemcachedError(reply) ? new CountersError(reply.error) : undefined
}

function toReadValue(reply: MemcachedReply): Answer | undefined {
  if (isValueReply(reply)) return reply.value ?? new CountersError('the value in memcached is not a number')
  return isMemcachedError(reply) ? new CountersError(reply.error) : undefined
}

function hasOnlyExpected(answers: readonly (Answer | undefined)[]): answers is readonly Answer[] {
  return !answers.includes(undefined)
}

/** Reconnects: after an unexpected reply, replies cannot be matched with requests. */
function discardReplies(
  connection: MemcachedConnection,
  onAnswers: (answers: readonly Answer[], problem: string) => void,
): void {
  connection.renew(unexpectedText)
  onAnswers([], unexpectedText)
}

/**
 * A counter that has reached this value is read before it is incremented: below it, billions of hits would
 * have to be added to one key to exceed 64 bits.
 */
const largeHits = 2 ** 32

/**
 * Reads the counters of large hits before it counts them. Memcached counts in 64 bits and wraps around to 0,
 * so a large hit is not added to a counter that has reached `maxCount`, above which no value is reported. 64
 * bits can still be exceeded, but only if thousands of the largest hits read before any of them is added.
 */
export function createLargeCountSender(look: SendCounts, count: SendCounts): SendCounts {
  return (items, onAnswers) => {
    const large = items.filter(({ by }) => by >= largeHits)
    if (large.length === 0) {
      count(items, onAnswers)
      return
    }
    look(large, looked => {
      const { answers, positions } = answerFull(items, collectValues(large, looked))
      const part: Resend<Increment, Count> = { positions, send: count }
      resend(items, answers, [part], all => onAnswers(all, undefined))
    })
  }
}

/** The values by key. A counter that could not be read counts as 0: it cannot be incremented either. */
function collectValues(
  large: readonly Increment[],
  looked: readonly (Count | CountersError)[],
): Map<string, bigint> {
  const befores = new Map<string, bigint>()
  for (const [index, { key }] of large.entries()) {
    const count = looked[index]
    befores.set(key, typeof count === 'number' || typeof count === 'bigint' ? BigInt(count) : 0n)
  }
  return befores
}

/**
 * Returns an answer for each item. The items at `positions` still have to be counted, which replaces their
 * answers; the others are large increments of a counter that is full.
 */
function answerFull(items: readonly Increment[], values: Map<string, bigint>) {
  const answers: bigint[] = []
  const positions: number[] = []
  for (const [position, { key, by }] of items.entries()) {
    const before = values.get(key) ?? 0n
    const value = before + BigInt(by)
    answers.push(value)
    if (by >= largeHits && before >= maxCount) continue
    positions.push(position)
    if (values.has(key)) values.set(key, value)
  }
  return { answers, positions }
}
