/**
 * Redis runs a script atomically. Scripts are sent as text each time: Redis caches known texts, and a restart
 * or a failover needs no special handling. Each script uses only the keys in its arguments.
 */

/**
 * Calls the commands that need Redis 6.2 or later, without an effect: it fails if Redis lacks them.
 *
 * KEYS: a key that never exists.
 */
export const probeScript = `
redis.call('XADD', KEYS[1], 'NOMKSTREAM', '1-1', 'a', 'b')
return redis.call('XTRIM', KEYS[1], 'MINID', '1-1')
`

/**
 * Begins a request, unless one with the same ids is running, or its ids were interrupted.
 *
 * The epoch of a request is greater than those of all earlier requests. It is also at least the time in
 * milliseconds, so that a Redis that has lost its data assigns no epoch twice. The id of each entry begins
 * with the epoch: requests are in order, and the entries of two requests never have the same id.
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
 * Redis rejects an entry whose id is not greater than the last one. Either the entry exists, because the
 * command is repeated; or another broker has ended the request, and its last entry is the end. A stream that
 * Redis has lost is not created again.
 *
 * A broker that is no longer the owner cannot append. The first entry after a continuation shows that the
 * producer has received its new resume token, so the previous token becomes invalid.
 *
 * KEYS: entries, producer. ARGV: epoch, position of the first entry, position below which entries are dropped
 * or 0, owner, progress or empty, then the time and the bytes of each entry. Returns `ok`, `missing`, `moved`
 * or the end of the request.
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
 * Continues a request. If the producer now calls another broker, that broker becomes the owner, and later
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
 * Records that the producer is lost, unless it has continued its request in the meantime.
 *
 * KEYS: producer. ARGV: owner, number of uses. Returns `ok`, or `moved` if another broker is the owner.
 */
export const lostScript = `
local found = redis.call('HMGET', KEYS[1], 'owner', 'uses')
if found[1] and found[1] ~= ARGV[1] then return 'moved' end
if found[2] == ARGV[2] then redis.call('HSET', KEYS[1], 'lost', ARGV[2]) end
return 'ok'
`

/**
 * Ends a request; the first of several attempts is effective. Returns `moved` without an effect if the owner
 * or the number of uses in the arguments is not the current one: the producer has then continued, at another
 * broker or in another call.
 *
 * KEYS: entries, header, requests, running, changes, producer. ARGV: ids, request, id of the end, the end,
 * new directory entry, expiry, owner or empty for any, number of uses or empty for any. Returns `ok`,
 * `missing`, `moved` or the earlier end of the request.
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
 * KEYS: requests, epoch, running, changes. ARGV: expiry of the directory. Returns three items: the greatest
 * epoch that a request in the directory can have (Redis has lost a request that a broker knows with at most
 * this epoch, but that is not in the directory); the id of the last change that the directory contains; and
 * its keys and values, alternating.
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
 * Writes the heartbeat of a broker, and renews the expiry of the heartbeat and of the broker's inbox.
 *
 * KEYS: heartbeat, inbox. ARGV: value of the heartbeat, expiry.
 */
export const heartbeatScript = `
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', '', '')
return redis.call('PEXPIRE', KEYS[2], ARGV[2])
`
