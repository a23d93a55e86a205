import type { PipelineCall } from '../batching/pipeline.ts'
import { needsExpiry, type TouchedKeys } from '../batching/touched-keys.ts'
import { CountersError, maxCount } from '../counters.ts'
import { isArrayReply } from './resp/reply-parser.ts'
import type { Script } from './send-scripts.ts'

/**
 * If any key would exceed its limit, only the keys that would are incremented; otherwise all are. This is the
 * rule of envoyproxy/ratelimit, made atomic. ARGV has four numbers for each key: the hits, the limit, the
 * expiry in seconds, and 1 to set the expiry even if the key is not new. Lua's numbers are exact up to 2^53;
 * a counter at or above that is not incremented.
 */
const text = `\
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
  if hits ~= 0 and after < 2^53 and (not over or befores[key] + hits > limit) then
    after = redis.call('INCRBY', key, ARGV[4 * i - 3])
    expire = expire or after == hits
  end
  if expire then redis.call('EXPIRE', key, ARGV[4 * i - 1]) end
  afters[key] = after
  values[i] = math.min(after, 2^53)
end
return values
`

/** @param touchedKeys remembers which expiries were sent */
export function stopWhenOverScript(touchedKeys: TouchedKeys): Script<PipelineCall, readonly number[]> {
  return {
    text,
    argumentCount: ({ batch }) => 5 * batch.length,
    keyCount: ({ batch }) => batch.length,
    write(requests, { batch }) {
      for (const { key } of batch) requests.text(key)
      for (const { key, hits, limit, expirySeconds, jitterSeconds = 0 } of batch) {
        const touched = touchedKeys.of(key)
        const expire = hits !== 0 && needsExpiry(touched, expirySeconds)
        if (expire) touched.expirySentSeconds = expirySeconds + jitterSeconds
        requests.integer(hits)
        requests.integer(limit)
        requests.integer(expirySeconds + jitterSeconds)
        requests.integer(expire ? 1 : 0)
      }
    },
    read(reply) {
      if (!isArrayReply(reply)) return new CountersError('Redis did not answer a script with a list')
      return reply.map(value => (typeof value === 'number' ? Math.min(value, maxCount) : maxCount))
    },
    // The expiries of a failed run may not have been set.
    onFailure({ batch }) {
      for (const { key } of batch) touchedKeys.of(key).expirySentSeconds = 0
    },
  }
}
