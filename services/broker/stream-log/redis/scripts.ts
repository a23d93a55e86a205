/**
 * Atomic operations in Redis. The scripts are sent as text each time: Redis caches known texts, and a restart
 * or a failover needs no special handling. Each script uses only the keys in its arguments.
 */

/**
 * Calls commands that need Redis 6.2 or later, and changes nothing.
 *
 * KEYS: one that never exists.
 */
export const probeScript = `
redis.call('XADD', KEYS[1], 'NOMKSTREAM', '1-1', 'a', 'b')
return redis.call('XTRIM', KEYS[1], 'MINID', '1-1')
`

/**
 * Begins a request, unless its ids are running or interrupted.
 *
 * Its epoch is greater than all previous ones. It is also not less than the time, so that a Redis that has
 * lost its data assigns no epoch twice. Every entry's id begins with it: requests are in order, and the
 * ids of two requests never overlap.
 *
 * KEYS: running, requests, epoch, changes, interrupted, entries, header, producer. ARGV: ids, request,
 * directory entry, header, expiry of the request, of the directory, hash of the resume token or empty,
 * progress, hash of the bearer token. Returns `exists`, `interrupted` or the epoch.
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
redis.call('HSET', KEYS[8], 'bearer', ARGV[9])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[8], 'owner', '0', 'token', ARGV[7], 'uses', '0', 'progress', ARGV[8])
end
redis.call('PEXPIRE', KEYS[8], ARGV[5])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('HSET', KEYS[2], ARGV[2], epoch .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', 10000, '*', ARGV[2], epoch .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[4], ARGV[6])
return epoch
`

/**
 * Drops the entries of a request below a position, and appends entries, oldest first.
 *
 * Redis rejects an id that is not greater than the last one. In this case either the command is repeated, and
 * the entry exists; or others ended the request, and its last entry has the end. A missing stream was lost,
 * and is not created again.
 *
 * A broker that is no longer the owner cannot append. The first entry after a continuation shows that the
 * producer has the next resume token: the previous one is not needed any more.
 *
 * KEYS: entries, producer. ARGV: epoch, position of the first, drop below, owner, progress or empty, then
 * time and bytes of each. Returns `ok`, `missing`, `moved` or the end of the request.
 */
export const appendScript = `
local owner = redis.call('HGET', KEYS[2], 'owner')
if owner and owner ~= ARGV[4] then return 'moved' end
if ARGV[3] ~= '0' then redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1] .. '-' .. ARGV[3]) end
local position = tonumber(ARGV[2])
for i = 6, #ARGV, 2 do
  local id = ARGV[1] .. '-' .. string.format('%.0f', position)
  local added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', id, ARGV[i], ARGV[i + 1])
  if not added then return 'missing' end
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
 * Continues a request. If the producer comes to another broker, that broker becomes the owner, and later
 * commands of the previous owner are rejected.
 *
 * KEYS: producer, requests, changes, entries, header. ARGV: request, owner as it was read, hash of the token,
 * hash of the next token, new owner, new directory entry (empty if the owner is the same), expiry of the
 * request. Returns the progress of the last entry, or false if the request has ended, or has changed since it
 * was read.
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
 * Records that the producer is lost, unless it has continued since.
 *
 * KEYS: producer. ARGV: owner, number of uses. Returns `ok` or `moved`.
 */
export const lostScript = `
local found = redis.call('HMGET', KEYS[1], 'owner', 'uses')
if found[1] and found[1] ~= ARGV[1] then return 'moved' end
if found[2] == ARGV[2] then redis.call('HSET', KEYS[1], 'lost', ARGV[2]) end
return 'ok'
`

/**
 * Ends a request; the first of several attempts is effective. A broker that is no longer the owner, or
 * that treats a previous owner as lost, cannot end it, and one that treats the producer as lost cannot end
 * it after the producer has continued.
 *
 * KEYS: entries, header, requests, running, changes, producer. ARGV: ids, request, id of the end, the end,
 * new directory entry, expiry, owner or empty for any, number of uses or empty for any. Returns `ok`, `missing`, `moved` or the earlier end of
 * the request.
 */
export const endScript = `
if ARGV[7] ~= '' then
  local owner = redis.call('HGET', KEYS[6], 'owner')
  if owner and owner ~= ARGV[7] then return 'moved' end
end
if ARGV[8] ~= '' and redis.call('HGET', KEYS[6], 'uses') ~= ARGV[8] then return 'moved' end
local added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', ARGV[3], 'end', ARGV[4])
if type(added) == 'table' and added.err then
  if not string.find(added.err, 'equal or smaller') then return added end
  return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][2][2]
end
if redis.call('HGET', KEYS[4], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[4], ARGV[1]) end
if not added then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('DEL', KEYS[2], KEYS[6])
  return 'missing'
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
 * KEYS: requests, epoch, running, changes. ARGV: expiry of the directory. Returns the greatest possible
 * epoch of a request in the directory (a known request with at most this epoch that is missing was lost),
 * the id of the last change that it contains, and alternating keys and values.
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
 * Removes a request from the directory if its entries have expired.
 *
 * KEYS: entries, requests, running. ARGV: ids, request.
 */
export const forgetScript = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[3], ARGV[1]) end
return redis.call('HDEL', KEYS[2], ARGV[2])
`

/**
 * Writes the heartbeat of a broker, and renews the expiry of its inbox.
 *
 * KEYS: heartbeat, inbox. ARGV: count, expiry.
 */
export const heartbeatScript = `
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', '', '')
return redis.call('PEXPIRE', KEYS[2], ARGV[2])
`
