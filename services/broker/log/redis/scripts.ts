/**
 * What must happen in Redis in one step. The scripts are sent as text each time: Redis knows a text that it
 * has seen, and a restart or a failover needs no care. Each touches only the keys that it is given.
 */

/**
 * Calls what only Redis 6.2 and later know, and changes nothing.
 *
 * KEYS: one that is never there.
 */
export const probeScript = `
redis.call('XADD', KEYS[1], 'NOMKSTREAM', '1-1', 'a', 'b')
return redis.call('XTRIM', KEYS[1], 'MINID', '1-1')
`

/**
 * Begins a request, unless its ids are running or interrupted.
 *
 * Its epoch is greater than all before it. It is not less than the time either, so that a Redis that has lost
 * its data gives no epoch twice. Every entry's id begins with it: requests are in order, and the ids of two
 * never meet.
 *
 * KEYS: running, requests, epoch, news, interrupted, entries, header, producer. ARGV: ids, request, what is
 * filed, header, expiry of the request, of the directory, hash of the resume token or nothing, progress.
 * Answers `exists`, `interrupted` or the epoch.
 */
export const openScript = `
if redis.call('EXISTS', KEYS[5]) == 1 then return 'interrupted' end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'exists' end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[3]) or '0')
local epoch = string.format('%.0f', math.max(time[1] * 1000 + math.floor(time[2] / 1000), last + 1))
redis.call('SET', KEYS[3], epoch, 'PX', ARGV[6])
redis.call('XADD', KEYS[6], epoch .. '-0', 'open', '')
redis.call('PEXPIRE', KEYS[6], ARGV[5])
redis.call('SET', KEYS[7], ARGV[4], 'PX', ARGV[5])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[8], 'owner', '0', 'token', ARGV[7], 'uses', '0', 'progress', ARGV[8])
  redis.call('PEXPIRE', KEYS[8], ARGV[5])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('HSET', KEYS[2], ARGV[2], epoch .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', 10000, '*', ARGV[2], epoch .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[4], ARGV[6])
return epoch
`

/**
 * Appends entries of one request, oldest first, after it has dropped those below a position.
 *
 * An id that is not greater than the last one is refused by Redis. Then either this is sent for the second
 * time, and the entry is there; or the request was ended by others, which its last entry tells. A stream that
 * is not there was lost, and is not made anew.
 *
 * A broker that its producer has left may append no more. The first entry after a continuation shows that the
 * producer has the next resume token: the one before is not needed any more.
 *
 * KEYS: entries, producer. ARGV: epoch, position of the first, drop below, owner, progress or nothing, then
 * time and bytes of each. Answers `ok`, `gone`, `moved` or how the request was ended.
 */
export const appendScript = `
local owner = redis.call('HGET', KEYS[2], 'owner')
if owner and owner ~= ARGV[4] then return 'moved' end
if ARGV[3] ~= '0' then redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1] .. '-' .. ARGV[3]) end
local position = tonumber(ARGV[2])
for i = 6, #ARGV, 2 do
  local id = ARGV[1] .. '-' .. string.format('%.0f', position)
  local added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', id, ARGV[i], ARGV[i + 1])
  if not added then return 'gone' end
  if type(added) == 'table' and added.err then
    if not string.find(added.err, 'equal or smaller') then return added end
    local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
    if last and last[2][1] == 'end' then return last[2][2] end
  end
  position = position + 1
end
if owner and ARGV[5] ~= '' then
  redis.call('HSET', KEYS[2], 'progress', ARGV[5])
  redis.call('HDEL', KEYS[2], 'previous')
end
return 'ok'
`

/**
 * Continues a request. Where the producer comes to another broker, that becomes the owner, and what the one
 * before sends later is refused.
 *
 * KEYS: producer, requests, news, entries, header. ARGV: request, owner as it was read, hash of the token,
 * hash of the next token, owner from now on, what is filed then (nothing where the owner stays), expiry of
 * the request. Answers the progress of the last entry, or nothing when the request has ended, or has changed
 * since it was read.
 */
export const resumeScript = `
local found = redis.call('HMGET', KEYS[1], 'owner', 'token', 'previous')
if found[1] ~= ARGV[2] then return false end
if found[2] ~= ARGV[3] and found[3] ~= ARGV[3] then return false end
local last = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
if not last or last[2][1] == 'end' then return false end
redis.call('HSET', KEYS[1], 'owner', ARGV[5], 'token', ARGV[4], 'previous', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'uses', 1)
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[6])
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', ARGV[1], ARGV[6])
  for _, key in ipairs({KEYS[1], KEYS[4], KEYS[5]}) do redis.call('PEXPIRE', key, ARGV[7]) end
end
return redis.call('HGET', KEYS[1], 'progress')
`

/**
 * Ends a request; of several who try, one does. A broker that its producer has left, or that takes the one
 * before for lost, does not.
 *
 * KEYS: entries, header, requests, running, news, producer. ARGV: ids, request, id of the end, how it ended,
 * what is filed now, expiry, owner or nothing for any. Answers `ok`, `gone`, `moved` or how the request was
 * ended before.
 */
export const endScript = `
if ARGV[7] ~= '' then
  local owner = redis.call('HGET', KEYS[6], 'owner')
  if owner and owner ~= ARGV[7] then return 'moved' end
end
local added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', ARGV[3], 'end', ARGV[4])
if type(added) == 'table' and added.err then
  if not string.find(added.err, 'equal or smaller') then return added end
  return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][2][2]
end
if redis.call('HGET', KEYS[4], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[4], ARGV[1]) end
if not added then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('DEL', KEYS[2], KEYS[6])
  return 'gone'
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('PEXPIRE', KEYS[6], ARGV[6])
redis.call('HSET', KEYS[3], ARGV[2], ARGV[5])
redis.call('XADD', KEYS[5], 'MAXLEN', '~', 10000, '*', ARGV[2], ARGV[5])
return 'ok'
`

/**
 * Reads the directory.
 *
 * KEYS: requests, epoch, running, news. ARGV: expiry of the directory. Answers the greatest epoch that a
 * request in it may have (one that is known, has no greater epoch and is not in it is gone), the id of the
 * last news that it contains, and keys and values in turn.
 */
export const directoryScript = `
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
for i = 1, 4 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
local newest = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
return {
  string.format('%.0f', math.max(time[1] * 1000 + math.floor(time[2] / 1000) - 1, last)),
  newest and newest[1] or '0-0',
  redis.call('HGETALL', KEYS[1]),
}
`

/**
 * Takes a request out of the directory when its entries have expired.
 *
 * KEYS: entries, requests, running. ARGV: ids, request.
 */
export const forgetScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[3], ARGV[1]) end
return redis.call('HDEL', KEYS[2], ARGV[2])
`

/**
 * Shows that a broker lives, and keeps its inbox.
 *
 * KEYS: heartbeat, inbox. ARGV: count, expiry.
 */
export const heartbeatScript = `
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', '', '')
return redis.call('PEXPIRE', KEYS[2], ARGV[2])
`
