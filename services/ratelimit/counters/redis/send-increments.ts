import type { OnAnswers, Send } from '../batching/send.ts'
import type { Count, Increment } from '../batching/sum-equal-keys.ts'
import { needsExpiry } from '../batching/touched-keys.ts'
import { CountersError } from '../counters.ts'
import type { RespConnection } from './resp/connection.ts'
import { isErrorReply, type RedisReply } from './resp/reply-parser.ts'
import { RespWriter, requestHead } from './resp/request-writer.ts'

/** The error that Redis returns for a sum beyond 64 bits. */
const overflowError = /^ERR increment or decrement would overflow/
/**
 * The count that stands for an overflow. It is above every value that is reported, and so is what remains of
 * it after the later hits of the increment are subtracted.
 */
const overflown = 2n ** 63n

const incrby = requestHead('INCRBY', 2)
const expire = requestHead('EXPIRE', 2)
const get = requestHead('GET', 1)
export const askingHead = requestHead('ASKING', 0)

/**
 * Sends increments as `INCRBY`. `EXPIRE` follows in the same write when this process has not yet set the
 * key's expiry, or set a shorter one. It is sent later when the reply shows that the key was new to Redis
 * although this process had set its expiry. Every other addition is one command. Adding 0 is a `GET`, which
 * neither creates nor prolongs a key, and which a read-only replica answers.
 *
 * All commands are in one write. Redis runs them in order and independently, so a failed one does not affect
 * the others.
 *
 * @param onErrorReply called with the text of each error reply
 */
export function createIncrementSender(
  connection: RespConnection,
  onErrorReply: (text: string) => void,
): Send<Increment, Count> {
  const requests = new RespWriter()

  function begin(head: Uint8Array, key: string, asking: boolean): void {
    if (asking) requests.begin(askingHead)
    requests.begin(head)
    requests.text(key)
  }

  function writeExpiry({ key, expirySeconds, jitterSeconds, touched }: Increment, asking: boolean): void {
    touched.expirySentSeconds = expirySeconds + jitterSeconds
    begin(expire, key, asking)
    requests.integer(touched.expirySentSeconds)
  }

  function writeIncrement(increment: Increment, asking: boolean): boolean {
    const { key, by, touched, expirySeconds } = increment
    begin(by === 0 ? get : incrby, key, asking)
    if (by === 0) return false
    requests.integer(by)
    if (!needsExpiry(touched, expirySeconds)) return false
    writeExpiry(increment, asking)
    return true
  }

  /**
   * Sends the expiries of keys that were new to Redis although this process had set their expiry: they were
   * evicted, flushed or expired.
   */
  function sendExpiries(increments: readonly Increment[], asking: boolean): void {
    if (increments.length === 0) return
    for (const increment of increments) writeExpiry(increment, asking)
    connection.send(requests, replies => {
      const outcomes = withoutAsking(replies, asking)
      for (const [index, { touched }] of increments.entries()) {
        if (isFailure(outcomes[index])) touched.expirySentSeconds = 0
      }
    })
  }

  return (increments, onAnswers: OnAnswers<Count>, asking = false) => {
    const firsts = increments.filter(increment => writeIncrement(increment, asking))
    connection.send(requests, (replies, problem) => {
      const read = readReplies(increments, firsts, withoutAsking(replies, asking), onErrorReply)
      onAnswers(read.answers, problem)
      sendExpiries(read.renewed, asking)
    })
  }
}

/** Drops the reply to the ASKING before each command, so that one reply remains for each command. */
export function withoutAsking(replies: readonly RedisReply[], asking: boolean): readonly RedisReply[] {
  return asking ? replies.filter((_, index) => index % 2 === 1) : replies
}

/**
 * @param firsts the increments that were sent with an EXPIRE
 * @returns an answer for each increment that has a reply, and the increments whose key was new to Redis
 * although this process had set its expiry
 */
function readReplies(
  increments: readonly Increment[],
  firsts: readonly Increment[],
  replies: readonly RedisReply[],
  onErrorReply: (text: string) => void,
): { answers: readonly (Count | CountersError)[]; renewed: readonly Increment[] } {
  const answers: (Count | CountersError)[] = []
  const renewed: Increment[] = []
  let position = 0
  let first = 0
  for (const increment of increments) {
    const reply = replies[position]
    position += 1
    if (reply !== undefined) answers.push(toCount(reply, onErrorReply))
    if (increment === firsts[first]) {
      if (isFailure(reply) || isFailure(replies[position])) increment.touched.expirySentSeconds = 0
      position += 1
      first += 1
    } else if (increment.by !== 0 && reply === increment.by) renewed.push(increment)
  }
  return { answers, renewed }
}

function isFailure(reply: RedisReply | undefined): boolean {
  return reply === undefined || isErrorReply(reply)
}

/** The reply is an integer to INCRBY, and a string or null to GET. */
function toCount(reply: RedisReply, onErrorReply: (text: string) => void): Count | CountersError {
  if (typeof reply === 'number' || typeof reply === 'bigint') return reply
  if (reply === null) return 0
  if (isErrorReply(reply)) return toErrorAnswer(reply.error, onErrorReply)
  if (typeof reply !== 'string' || !/^-?\d{1,19}$/.test(reply)) {
    return new CountersError('a counter in Redis is not a whole number')
  }
  const count = Number(reply)
  return Number.isSafeInteger(count) ? count : BigInt(reply)
}

function toErrorAnswer(text: string, onErrorReply: (text: string) => void): Count | CountersError {
  if (overflowError.test(text)) return overflown
  onErrorReply(text)
  return new CountersError(text)
}
