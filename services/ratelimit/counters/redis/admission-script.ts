import { emptyingHits, type LimitCheck } from '../admission/limit-check.ts'
import { maxDebt } from '../admission/token-bucket.ts'
import { type AdmissionRun, isSameLimit, type RunOutcomes } from '../batching/admission-runs.ts'
import { needsExpiry, type TouchedKeys } from '../batching/touched-keys.ts'
import { CountersError, maxCount } from '../counters.ts'
import { isArrayReply, type RedisReply } from './resp/reply-parser.ts'
import type { RespWriter } from './resp/request-writer.ts'
import type { Script } from './send-scripts.ts'

const numberOf = { FixedWindow: 0, SlidingWindow: 1, TokenBucket: 2, Concurrency: 3 } as const

/** How many arguments a check has, and how many more one for a lease. */
const valuesPerAskedCheck = 3
const valuesPerLease = 4

/** The longest expiry of a state in Redis: 2^31-1 seconds, about 68 years. */
export const maxExpiryMs = (2 ** 31 - 1) * 1000

/**
 * The beginning of a script that decides by the states of limits. It reads the time and the limits from ARGV,
 * and defines `open`, `save` and the methods of `LimitState`.
 */
export const stateFunctions = `\
local FIXED, SLIDING, CONCURRENCY = 0, 1, 3
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local call, pcall = redis.call, redis.pcall
local now, at = tonumber(ARGV[1]), 2
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local limits = {}
for i = 1, tonumber(ARGV[2]) do
  local l = {
    algorithm = tonumber(ARGV[at + 1]), limit = tonumber(ARGV[at + 2]), burst = tonumber(ARGV[at + 3]),
    window = tonumber(ARGV[at + 4]), rate = tonumber(ARGV[at + 5]), expiry = ARGV[at + 6],
  }
  local flags = tonumber(ARGV[at + 7])
  l.shadow, l.count_rejected, l.grants = flags % 2 == 1, flags % 4 > 1, flags % 8 > 3
  l.leased, l.prolongs = flags % 16 > 7, flags > 15
  l.now = floor(now / (1000000 / l.rate))
  l.most = l.limit
  if l.algorithm == 2 and l.limit > 0 then l.most = l.burst end
  limits[i] = l
  at = at + 7
end

local function hits_of(member)
  return tonumber(string.match(member, ':(%d+)$'))
end

-- Reads what is held without the holds that have ended.
local function open_holds(s, l)
  s.held, s.time, s.last, s.next, s.parts, s.taken, s.pending = 0, l.now, 0, 0, 0, {}, {}
  local stored = pcall('ZRANGEBYSCORE', s.key, '-inf', l.now, 'WITHSCORES')
  s.problem = stored.err
  if s.problem then return end
  local ended = 0
  for i = 1, #stored, 2 do
    local score = tonumber(stored[i + 1])
    if score < 0 then s[stored[i]] = -1 - score
    else ended = ended + hits_of(stored[i]) end
  end
  s.back, s.ended = max(0, s.time - l.now), ended > 0
  if s.back > 0 then
    for _, member in ipairs(call('ZRANGEBYSCORE', s.key, string.format('(%.0f', l.now), s.time)) do
      ended, s.ended = ended + hits_of(member), true
    end
  end
  s.held = s.held - ended
end

-- Removes ended holds, moves the others if the clock has stepped back, and writes pending ones.
local function settle_holds(s, l)
  if s.ended then call('ZREMRANGEBYSCORE', s.key, 0, max(l.now, s.time)) end
  if s.back > 0 then
    local holds = call('ZRANGEBYSCORE', s.key, 0, '+inf', 'WITHSCORES')
    for i = 1, #holds, 2 do call('ZADD', s.key, holds[i + 1] - s.back, holds[i]) end
    s.last = s.last - s.back
  end
  s.ended, s.back, s.time, s.changed = false, 0, l.now, true
  for i = 1, #s.pending, 1000 do
    call('ZADD', s.key, unpack(s.pending, i, min(#s.pending, i + 999)))
  end
  s.pending = {}
end

-- Takes a hold under a name until then, or under the next number for the lease.
local function add_hold(s, l, hits, name, ends)
  local member = string.format('%s:%.0f', name or string.format('%.0f', s.next), hits)
  ends = ends or l.now + l.window
  s.next = s.next + 1
  s.held, s.last, s.changed = s.held + hits, max(s.last, ends), true
  s.taken[#s.taken + 1] = { member = member, hits = hits }
  s.pending[#s.pending + 1] = ends
  s.pending[#s.pending + 1] = member
end

local function undo_hold(s)
  local hold = table.remove(s.taken)
  if #s.pending > 0 then
    s.pending[#s.pending], s.pending[#s.pending - 1] = nil, nil
  elseif call('ZREM', s.key, hold.member) == 0 then
    return
  end
  s.held = s.held - hold.hits
end

-- Finds the hold of a name. Of its hits, some or all may have been given back.
local function find_hold(s, hits, name)
  local whole = string.format('%s:%.0f', name, hits)
  if call('ZSCORE', s.key, whole) then return whole end
  if s.parts == 0 then return nil end
  for _, member in ipairs(call('ZRANGEBYSCORE', s.key, 0, '+inf')) do
    if string.sub(member, 1, #name + 1) == name .. ':' then return member end
  end
end

-- Ends a hold, or moves its end. Returns false if it has ended already.
local function change_hold(s, l, hits, name, ends)
  settle_holds(s, l)
  local member = find_hold(s, hits, name)
  if not member then return false end
  if ends then
    call('ZADD', s.key, ends, member)
    s.last = max(s.last, ends)
  else
    call('ZREM', s.key, member)
    s.held = s.held - hits_of(member)
  end
  return true
end

local function release_holds(s, l, hits)
  if s.held == 0 then return end
  settle_holds(s, l)
  while hits > 0 and s.held > 0 do
    local first = call('ZRANGEBYSCORE', s.key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not first[1] then break end
    local held = hits_of(first[1])
    local released = min(held, hits)
    call('ZREM', s.key, first[1])
    if released < held then
      local rest = string.match(first[1], '^(.*):') .. string.format(':%.0f', held - released)
      call('ZADD', s.key, first[2], rest)
      s.parts = 1
      call('ZADD', s.key, -2, 'parts')
      for _, hold in ipairs(s.taken) do
        if hold.member == first[1] then hold.member, hold.hits = rest, held - released end
      end
    end
    s.held, hits = s.held - released, hits - released
  end
end

local function wait_for_holds(s, l, hits)
  local too_many, from = s.held + hits - l.limit, 0
  if too_many <= 0 then return 0 end
  if #s.pending > 0 then settle_holds(s, l) end
  local after = string.format('(%.0f', max(l.now, s.time))
  while true do
    local page = call('ZRANGEBYSCORE', s.key, after, '+inf', 'WITHSCORES', 'LIMIT', from, 100)
    for i = 1, #page, 2 do
      too_many = too_many - hits_of(page[i])
      if too_many <= 0 then return page[i + 1] - s.back - l.now end
    end
    if #page == 0 then return 0 end
    from = from + 100
  end
end

local function save_holds(s, l)
  if not (s.changed or (s.asked and (s.ended or s.back > 0))) then return end
  settle_holds(s, l)
  if s.held <= 0 then
    call('DEL', s.key)
    return
  end
  call('ZADD', s.key, -1 - s.held, 'held', -1 - s.time, 'time', -1 - s.last, 'last', -1 - s.next, 'next')
  if ARGV[1] == '-1' then call('PEXPIRE', s.key, ceil((s.last - l.now) * (1000 / l.rate))) end
end

local function drain(debt, ticks, limit)
  return debt - min(max(0, ticks), ceil(debt / limit)) * limit
end

-- Sets what the bucket owes at least, because it is leased.
local function owe(s, l)
  s.owed = min(l.burst, s.recent + s.earlier) * l.window
end

-- Drains the debt since that time, in each second only as far as leases allow.
local function drain_above_leases(s, l, debt, time, stored)
  local second = floor(l.now / l.rate)
  s.second, s.recent, s.earlier = tonumber(stored[4] or second), tonumber(stored[5] or 0), tonumber(stored[6] or 0)
  owe(s, l)
  while s.owed > 0 and s.second < second do
    local ends = (s.second + 1) * l.rate
    debt, time = max(s.owed, drain(debt, ends - time, l.limit)), max(time, ends)
    s.second, s.recent, s.earlier = s.second + 1, 0, s.recent
    owe(s, l)
  end
  if s.owed == 0 then s.second, s.recent, s.earlier = second, 0, 0 end
  return max(s.owed, drain(debt, l.now - time, l.limit))
end

local function open(key, l)
  local s = { key = key, limit = l, added = 0 }
  if l.algorithm == FIXED then
    local stored = pcall('GET', key)
    s.problem = type(stored) == 'table' and stored.err
    s.count = not s.problem and tonumber(stored or '0')
    if not s.problem and not s.count then s.problem = 'ERR value is not an integer or out of range' end
  elseif l.algorithm == CONCURRENCY then
    open_holds(s, l)
  elseif l.algorithm == SLIDING then
    local stored = pcall('HMGET', key, 'start', 'previous', 'current')
    s.problem = stored.err
    s.start = l.now - l.now % l.window
    s.rest = s.start + l.window - l.now
    s.previous, s.current, s.back = 0, 0, 0
    local start = stored[1] and stored[1] * l.rate
    if start and s.start <= start then
      s.previous, s.current, s.back = tonumber(stored[2]), tonumber(stored[3]), start - s.start
      s.changed = s.back > 0
    elseif start and s.start == start + l.window then
      s.previous = max(0, tonumber(stored[3]))
    end
  else
    local stored
    if l.leased then stored = pcall('HMGET', key, 'debt', 'time', 'rate', 'second', 'recent', 'earlier')
    else stored = pcall('HMGET', key, 'debt', 'time', 'rate') end
    s.problem = stored.err
    s.debt, s.owed = 0, 0
    if l.leased then s.second, s.recent, s.earlier = floor(l.now / l.rate), 0, 0 end
    if stored[1] then
      local debt, time, rate = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
      if rate < l.rate then
        debt, time = min(${maxDebt}, debt * (l.rate / rate)), time * (l.rate / rate)
      elseif rate > l.rate then
        debt, time = ceil(debt / (rate / l.rate)), ceil(time / (rate / l.rate))
      end
      s.changed = l.now < time
      if l.leased and l.limit > 0 then debt = drain_above_leases(s, l, debt, time, stored)
      elseif l.limit > 0 then debt = max(0, drain(debt, l.now - time, l.limit)) end
      s.debt = debt
    end
  end
  return s
end

local function admits(s, l, hits)
  if hits > l.most then return false end
  if l.algorithm == FIXED then return s.count + hits <= l.limit end
  if l.algorithm == CONCURRENCY then return s.held + hits <= l.limit end
  if l.algorithm == SLIDING then return s.previous * s.rest <= (l.limit - s.current - hits) * l.window end
  return s.debt + hits * l.window <= l.burst * l.window
end

local function add(s, l, hits)
  if l.algorithm == CONCURRENCY then
    if hits > 0 then add_hold(s, l, hits)
    elseif hits < 0 then release_holds(s, l, -hits) end
    return
  end
  if l.algorithm == FIXED then s.count = s.count + hits
  elseif l.algorithm == SLIDING then s.current = s.current + hits
  else s.debt = max(s.owed, s.debt + hits * l.window) end
  s.added = s.added + hits
end

local function lease(s, l, hits, replaced, since)
  if l.algorithm ~= 2 then return true end
  local age = s.second - floor(since / 1000000)
  if age == 0 then s.recent = max(0, s.recent - replaced)
  elseif age == 1 then s.earlier = max(0, s.earlier - replaced) end
  s.recent, s.reduced = s.recent + hits, true
  owe(s, l)
  s.debt = max(s.debt, s.owed)
  return age == 0 or age == 1
end

-- Returns by how many seconds the start of a sliding window has been moved back in all.
local function shift_of(s, l)
  return (call('HMGET', s.key, 'shift')[1] or 0) + s.back / l.rate
end

local function give_back(s, l, hits)
  if l.algorithm == CONCURRENCY then release_holds(s, l, hits)
  elseif l.algorithm == FIXED then add(s, l, -min(hits, max(0, s.count)))
  elseif l.algorithm == SLIDING and s.current > 0 then
    s.current, s.reduced = s.current - min(hits, s.current), true
  elseif l.algorithm == 2 and s.debt > 0 then
    s.debt, s.reduced = max(s.owed, s.debt - hits * l.window), true
  end
end

local function room(s, l)
  if l.algorithm == FIXED then return max(0, ${maxCount} - s.count) end
  if l.algorithm == CONCURRENCY then return max(0, 2 * l.limit - s.held) end
  if l.algorithm == SLIDING then return ${maxCount} - s.current end
  if l.limit == 0 then return 0 end
  return floor((${maxDebt} - s.debt) / l.window)
end

local function empty(s, l)
  if l.algorithm == CONCURRENCY then release_holds(s, l, s.held)
  elseif l.algorithm == FIXED then s.added, s.count = s.added - s.count, 0
  elseif l.algorithm == SLIDING then s.previous, s.current = 0, 0
  else s.debt, s.owed, s.recent, s.earlier = 0, 0, 0, 0 end
end

local function remaining(s, l)
  if l.algorithm == FIXED then return l.limit - s.count end
  if l.algorithm == CONCURRENCY then return l.limit - s.held end
  if l.algorithm == SLIDING then
    return floor((l.limit * l.window - s.previous * s.rest) / l.window) - s.current
  end
  if l.limit == 0 then return 0 end
  return floor((l.burst * l.window - s.debt) / l.window)
end

local function rest_that_fits(l, hits, room)
  if hits == 0 then return l.window end
  return floor(room * l.window / hits)
end

local function wait(s, l, hits)
  if l.algorithm == FIXED then return 0 end
  if hits > l.most then return -1 end
  if l.algorithm == CONCURRENCY then return wait_for_holds(s, l, hits) end
  if l.algorithm == SLIDING then
    local room = l.limit - s.current - hits
    if room >= 0 then return max(0, s.rest - rest_that_fits(l, s.previous, room)) end
    return s.rest + max(0, l.window - rest_that_fits(l, s.current, l.limit - hits))
  end
  return max(0, ceil((s.debt + hits * l.window - l.burst * l.window) / l.limit))
end

local function save(s)
  local l, ticks = s.limit, 0
  if l.algorithm == FIXED then
    local is_new = s.added ~= 0 and call('INCRBY', s.key, s.added) == s.added
    if is_new or (l.prolongs and s.asked) then call('EXPIRE', s.key, l.expiry) end
  elseif l.algorithm == CONCURRENCY then
    save_holds(s, l)
  elseif s.added ~= 0 or s.reduced or (s.changed and s.asked) then
    if l.algorithm == SLIDING then
      if s.back > 0 then call('HSET', s.key, 'shift', shift_of(s, l)) end
      call('HSET', s.key, 'start', s.start / l.rate, 'previous', s.previous, 'current', s.current)
      ticks = s.rest + l.window
    else
      call('HSET', s.key, 'debt', s.debt, 'time', l.now, 'rate', l.rate)
      if l.limit > 0 then ticks = ceil(s.debt / l.limit) end
      if l.leased then
        call('HSET', s.key, 'second', s.second, 'recent', s.recent, 'earlier', s.earlier)
        if s.owed > 0 then ticks = ticks + 2 * l.rate end
      end
    end
    if (s.added ~= 0 or s.reduced) and ARGV[1] == '-1' then
      call('PEXPIRE', s.key, min(${maxExpiryMs}, ceil(ticks * (1000 / l.rate))))
    end
  end
end
`

/**
 * Decides the calls of a run, one after the other. The rules are those of the classes in
 * `counters/admission/`; tests compare both with the same oracles. All numbers are integers below 2^53, with
 * which Lua computes exactly.
 *
 * A fixed window is a string, the counter that `INCRBY` changes. A sliding window is a hash of `start` in
 * seconds, `previous` and `current`; and once the clock has stepped back, of `shift`, the seconds by which
 * `start` went back with it: `start` and `shift` together name the window in which hits were counted. A token bucket is a hash of `debt`, `time` and `rate`, the ticks a
 * second in which `time` is measured; and of the hits that are leased, those of the last `second` (`recent`)
 * and of the one before (`earlier`). `Concurrency` is a sorted set: a member `number:hits` or `name:hits` for
 * each hold, whose score is the tick at which it ends; and `held`, the sum of the hits, `time`, the tick of
 * the last change, `last`, the end of the last hold, `next`, the number of the next hold, and `parts`, 1 if
 * hits of a hold were given back without all of it. The scores of these are negative, -1 minus the number, so
 * that one range from 0 on has exactly the holds.
 *
 * ARGV: the time in microseconds, or -1 for the time of Redis; the number of limits; for each limit the
 * algorithm, the limit, the burst, the window in ticks, the ticks a second, the expiry in seconds, and flags
 * (1 for a shadow limit, plus 2 if rejected hits count, plus 4 if negative hits grant, plus 8 if there may be
 * leases, plus 16 if the expiry of a fixed window is set even if its counter is not new); then for each call the
 * number of checks, and for each check the index of its key and of its limit, from 0, and its hits. A call for leases has the number of checks negated, and for each check also the
 * numbers of `LeaseTerms`.
 *
 * The reply has three items for each check: 1 if its limit admits the call, else 0, or, for a lease, the hits
 * that it got, else -1; the remaining hits; and the wait in ticks, or -1. If a key of a call is unreadable, the first item of each check of the call is the
 * error instead. The last item of the reply is the time.
 */
const text = `${stateFunctions}
-- Takes or ends a lease. Returns whether the limit admits it, and its hits.
local function take(s, l, hits, first)
  if hits <= 0 then
    if lease(s, l, 0, ARGV[first + 6], ARGV[first + 7]) then give_back(s, l, -hits) end
    return true, 0
  end
  local most = min(hits, max(0, remaining(s, l)))
  if most < tonumber(ARGV[first + 4]) then return false, 0 end
  add(s, l, most)
  return true, most
end

local states, order, replies, size = {}, {}, {}, 0
while ARGV[at + 1] do
  local count, rejected, admitted, problem = tonumber(ARGV[at + 1]), false, {}, nil
  local stride, granted = ${valuesPerAskedCheck}, nil
  if count < 0 then count, stride, granted = -count, ${valuesPerAskedCheck + valuesPerLease}, {} end
  local first = at + 1
  for i = 1, count do
    local place, hits = tonumber(ARGV[first + 1]) + 1, tonumber(ARGV[first + 3])
    local s = states[place]
    if not s then
      s = open(KEYS[place], limits[ARGV[first + 2] + 1])
      states[place] = s
      order[#order + 1] = s
    end
    problem = problem or s.problem
    if not problem then
      local l = limits[ARGV[first + 2] + 1]
      if hits ~= 0 or granted then s.asked = true end
      if granted then
        admitted[i], granted[i] = take(s, l, hits, first)
      else
        if hits < 0 and l.grants then s.reduced = true end
        admitted[i] = hits < 0 or admits(s, l, max(1, hits))
        if hits < 0 and not l.grants then give_back(s, l, -hits)
        elseif hits == ${emptyingHits} then empty(s, l)
        elseif admitted[i] then add(s, l, hits)
        elseif l.count_rejected then add(s, l, min(hits, room(s, l))) end
      end
      rejected = rejected or not (admitted[i] or l.shadow)
    end
    first = first + stride
  end
  if rejected or problem or granted then
    for i = 1, count do
      local place = at + 1 + stride * (i - 1)
      local s, l = states[ARGV[place + 1] + 1], limits[ARGV[place + 2] + 1]
      local hits = tonumber(ARGV[place + 3])
      if granted and hits > 0 and not (rejected or problem) then
        lease(s, l, granted[i] + ARGV[place + 5], ARGV[place + 6], ARGV[place + 7])
      elseif granted and granted[i] then
        add(s, l, -granted[i])
        granted[i] = 0
      elseif admitted[i] and hits > 0 and not l.count_rejected then
        if l.algorithm == CONCURRENCY then undo_hold(s) else add(s, l, -hits) end
      end
    end
  end
  first = at + 1
  for i = 1, count do
    local hits, s, l = tonumber(ARGV[first + 3]), states[ARGV[first + 1] + 1], limits[ARGV[first + 2] + 1]
    if problem then
      replies[size + 1], replies[size + 2], replies[size + 3] = problem, 0, 0
    else
      replies[size + 1] = admitted[i] and 1 or 0
      if granted then
        replies[size + 1] = admitted[i] and granted[i] or -1
        hits = tonumber(ARGV[first + 4])
      end
      replies[size + 2] = remaining(s, l)
      replies[size + 3] = wait(s, l, max(1, hits))
    end
    size = size + 3
    first = first + stride
  end
  at = first
end

for _, s in ipairs(order) do save(s) end
replies[size + 1] = now
return replies
`

/**
 * Returns the time for a run, in microseconds since the epoch; undefined for the time of Redis. Only tests
 * use another time. The states of sliding windows and token buckets do not expire then, because Redis expires
 * keys by its own time.
 */
export type TimeMicros = (checks: readonly LimitCheck[]) => number | undefined

/** How many arguments `writeLimit` writes. */
export const valuesPerLimit = 7
const valuesPerCheck = 3

/** @param touchedKeys remembers which expiries were sent */
export function admissionScript(
  touchedKeys: TouchedKeys,
  timeMicros: TimeMicros = () => undefined,
): Script<AdmissionRun, RunOutcomes> {
  return {
    text,
    argumentCount: ({ keys, limits, calls }) =>
      keys.length + 2 + valuesPerLimit * limits.length + calls.length,
    keyCount: ({ keys }) => keys.length,
    write(requests, { keys, limits, calls, checks }) {
      for (const key of keys) requests.text(key)
      requests.text(`${timeMicros(checks) ?? -1}`)
      requests.integer(limits.length)
      const prolonging = findProlonging(limits, checks, touchedKeys)
      for (const limit of limits) writeLimit(requests, limit, prolonging.has(limit))
      for (const number of calls) requests.integer(number)
    },
    read: readOutcomes,
    // The expiries of a failed run may not have been set.
    onFailure({ checks }) {
      for (const { algorithm, key } of checks) {
        if (algorithm === 'FixedWindow') touchedKeys.of(key).expirySentSeconds = 0
      }
    },
  }
}

/** Returns the limits of counters for which this process has sent no expiry yet, or a shorter one. */
function findProlonging(
  limits: readonly LimitCheck[],
  checks: readonly LimitCheck[],
  touchedKeys: TouchedKeys,
): ReadonlySet<LimitCheck | undefined> {
  const prolonging = new Set<LimitCheck | undefined>()
  for (const check of checks) {
    if (check.algorithm !== 'FixedWindow' || check.hits <= 0) continue
    const touched = touchedKeys.of(check.key)
    if (!needsExpiry(touched, check.expirySeconds)) continue
    touched.expirySentSeconds = check.expirySeconds
    prolonging.add(limits.find(limit => isSameLimit(limit, check)))
  }
  return prolonging
}

export function writeLimit(requests: RespWriter, check: LimitCheck, prolongs = false): void {
  requests.integer(numberOf[check.algorithm])
  requests.integer(check.limit)
  requests.integer(check.burst)
  requests.integer(check.windowTicks)
  requests.integer(check.ticksPerSecond)
  requests.integer(check.expirySeconds)
  const { shadow, countRejected, grants, leased } = check
  const flags = [shadow, countRejected, grants, leased, prolongs]
  requests.integer(flags.reduce((sum, flag, bit) => sum + (flag ? 1 << bit : 0), 0))
}

function readOutcomes(reply: RedisReply, { checks }: AdmissionRun): RunOutcomes | CountersError {
  if (!isArrayReply(reply) || reply.length !== valuesPerCheck * checks.length + 1) {
    return new CountersError('Redis did not answer a script with a list of the expected length')
  }
  const atMicros = Number(reply[valuesPerCheck * checks.length])
  return checks.map(({ ticksPerSecond, lease }, check) => {
    const at = valuesPerCheck * check
    const admitted = reply[at]
    if (typeof admitted === 'string') return new CountersError(admitted)
    const wait = Number(reply[at + 2])
    const granted = Number(admitted)
    return {
      admitted: lease === undefined ? admitted === 1 : granted >= 0,
      remaining: Number(reply[at + 1]),
      ...(lease !== undefined && { granted: Math.max(0, granted) }),
      waitSeconds: wait < 0 ? undefined : wait / ticksPerSecond,
      atMicros,
    }
  })
}
