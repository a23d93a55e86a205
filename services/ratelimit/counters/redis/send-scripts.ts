import { createHash } from 'node:crypto'
import type { Call } from '../batching/pipeline.ts'
import { type OnAnswers, type Send, sendAgain } from '../batching/send.ts'
import { needsExpiry, type TouchedKeys } from '../batching/touched-keys.ts'
import { CountersError, maxCount } from '../counters.ts'
import type { RespConnection } from './resp/connection.ts'
import { isArrayReply, isErrorReply, type Reply } from './resp/reply-parser.ts'
import { createRequestWriter, requestHead } from './resp/request-writer.ts'
import { askingHead, withoutAsking } from './send-increments.ts'

/**
 * Where a key would exceed its limit only such keys are incremented, otherwise all keys are. This is the
 * reference's rule, but atomic. The arguments of each key are its hits, its limit, its expiry, and 1 if the
 * expiry is to be set although the key is not new. A script's numbers are exact up to 2^53; a counter beyond
 * that stays as it is.
 */
const script = `\
local befores, values, over = {}, {}, false
for i, key in ipairs(KEYS) do
  local before = tonumber(redis.call('GET', key) or '0')
  if not before then return redis.error_reply('ERR value is not an integer or out of range') end
  befores[key] = before
  if before + tonumber(ARGV[4 * i - 3]) > tonumber(ARGV[4 * i - 2]) then over = true end
end
local afters = {}
for i, key in ipairs(KEYS) do
  local hits, limit = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2])
  local after, expire = afters[key] or befores[key], ARGV[4 * i] == '1'
  if hits > 0 and after < 2^53 and (not over or befores[key] + hits > limit) then
    after = redis.call('INCRBY', key, ARGV[4 * i - 3])
    expire = expire or after == hits
  end
  if expire then redis.call('EXPIRE', key, ARGV[4 * i - 1]) end
  afters[key] = after
  values[i] = math.min(after, 2^53)
end
return values
`
const sha = createHash('sha1').update(script).digest('hex')

/**
 * Sends each call as one run of a script, which is atomic on its Redis; the runs of a write are sent
 * together. With a cluster, all keys of a call must be in one slot.
 *
 * @param touchedKeys remembers the expiries that were sent
 * @param onRefusal called with the text of each error reply
 */
export function createScriptSender(
  connection: RespConnection,
  touchedKeys: TouchedKeys,
  onRefusal: (text: string) => void,
): Send<Call, readonly number[]> {
  const requests = createRequestWriter()

  function writeCall(name: 'EVALSHA' | 'EVAL', { batch }: Call, asking: boolean): void {
    if (asking) requests.begin(askingHead)
    requests.begin(requestHead(name, 2 + 5 * batch.length))
    requests.text(name === 'EVAL' ? script : sha)
    requests.integer(batch.length)
    for (const { key } of batch) requests.text(key)
    for (const { key, hits, limit, expirySeconds, jitterSeconds = 0 } of batch) {
      const touched = touchedKeys.of(key)
      const expire = hits > 0 && needsExpiry(touched, expirySeconds)
      if (expire) touched.expirySentSeconds = expirySeconds + jitterSeconds
      requests.integer(hits)
      requests.integer(limit)
      requests.integer(expirySeconds + jitterSeconds)
      requests.integer(expire ? 1 : 0)
    }
  }

  /** Forgets the expiries of failed calls, which may not have been set. */
  function forgetFailed(calls: readonly Call[], outcomes: readonly Reply[]): void {
    for (const [index, { batch }] of calls.entries()) {
      const outcome = outcomes[index]
      if (outcome !== undefined && !isErrorReply(outcome)) continue
      for (const { key } of batch) touchedKeys.of(key).expirySentSeconds = 0
    }
  }

  function send(
    name: 'EVALSHA' | 'EVAL',
    calls: readonly Call[],
    onAnswers: OnAnswers<readonly number[]>,
    asking = false,
  ): void {
    for (const call of calls) writeCall(name, call, asking)
    connection.send(requests, (replies, problem) => {
      const outcomes = withoutAsking(replies, asking)
      forgetFailed(calls, outcomes)
      const answers = outcomes.map(reply => answerOf(reply, onRefusal))
      const places = name === 'EVAL' ? [] : placesOfUnknown(outcomes)
      if (places.length === 0) onAnswers(answers, problem)
      else {
        const sendWhole: Send<Call, readonly number[]> = (some, onSome) => send('EVAL', some, onSome, asking)
        sendAgain(calls, answers, [{ places, send: sendWhole }], all => onAnswers(all, problem))
      }
    })
  }

  return (calls, onAnswers, asking) => send('EVALSHA', calls, onAnswers, asking)
}

/** Returns the indexes of the calls that were not run because Redis does not have the script. */
function placesOfUnknown(replies: readonly Reply[]): number[] {
  const places: number[] = []
  for (const [place, reply] of replies.entries()) {
    if (isErrorReply(reply) && reply.error.startsWith('NOSCRIPT')) places.push(place)
  }
  return places
}

function answerOf(reply: Reply, onRefusal: (text: string) => void): readonly number[] | CountersError {
  if (isErrorReply(reply)) {
    onRefusal(reply.error)
    return new CountersError(reply.error)
  }
  if (!isArrayReply(reply)) return new CountersError('Redis did not answer a script with a list')
  return reply.map(value => (typeof value === 'number' ? Math.min(value, maxCount) : maxCount))
}
