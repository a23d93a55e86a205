import type { Member, MemberOutcome } from '../admission/member.ts'
import type { FoldedCalls, FoldedOutcomes } from '../batching/fold-equal-calls.ts'
import { CountersError } from '../counters.ts'
import { isArrayReply, type Reply } from './resp/reply-parser.ts'
import type { RequestWriter } from './resp/request-writer.ts'
import type { Script } from './send-scripts.ts'

const numberOf = { FixedWindow: 0, SlidingWindow: 1, TokenBucket: 2 } as const

/** Redis keeps no state longer than this: 68 years. */
const maxExpiryMs = (2 ** 31 - 1) * 1000

/**
 * Decides calls of the same limits, one after the other. The rules are those of the classes in
 * `counters/admission/`, and tests compare both with the same oracles. All numbers are integers below 2^53,
 * which Lua computes with exactly.
 *
 * A fixed window is a string, as without the script. A sliding window is a hash of `start` in seconds,
 * `previous` and `current`; a token bucket one of `debt`, `time` and `rate`, its ticks a second.
 *
 * ARGV: the time in microseconds, or -1 for the time of Redis; the number of calls; for each key the
 * algorithm, the limit, the burst, the window in ticks, the ticks a second, the expiry in seconds and 1 for a
 * shadow limit; then for each call the hits for each key. The reply has for each call and key 1 if the limit
 * admits the call, the remaining hits, and the wait in ticks or -1.
 */
const text = `\
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function open_sliding(m)
  local stored = redis.call('HMGET', m.key, 'start', 'previous', 'current')
  m.start = m.now - m.now % m.window
  m.rest = m.start + m.window - m.now
  m.previous, m.current = 0, 0
  if not stored[1] then return end
  local start = stored[1] * m.rate
  if m.start <= start then
    m.previous, m.current, m.changed = tonumber(stored[2]), tonumber(stored[3]), m.start < start
  elseif m.start == start + m.window then
    m.previous = tonumber(stored[3])
  end
end

local function open_bucket(m)
  local stored = redis.call('HMGET', m.key, 'debt', 'time', 'rate')
  m.debt = 0
  if not stored[1] then return end
  local debt, time, rate = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
  if rate < m.rate then
    debt, time = math.min(2^52, debt * (m.rate / rate)), time * (m.rate / rate)
  elseif rate > m.rate then
    debt, time = math.ceil(debt / (rate / m.rate)), math.ceil(time / (rate / m.rate))
  end
  if m.limit > 0 then
    debt = math.max(0, debt - math.min(math.max(0, m.now - time), math.ceil(debt / m.limit)) * m.limit)
  end
  m.debt, m.changed = debt, m.now < time
end

local members = {}
for i, key in ipairs(KEYS) do
  local p = 7 * i - 5
  local m = {
    key = key, algorithm = ARGV[p + 1], limit = tonumber(ARGV[p + 2]), burst = tonumber(ARGV[p + 3]),
    window = tonumber(ARGV[p + 4]), rate = tonumber(ARGV[p + 5]), expiry = ARGV[p + 6],
    shadow = ARGV[p + 7] == '1', added = 0,
  }
  m.now = math.floor(now / (1000000 / m.rate))
  m.most = m.limit
  if m.algorithm == '1' then open_sliding(m)
  elseif m.algorithm == '2' then
    if m.limit > 0 then m.most = m.burst end
    open_bucket(m)
  else
    m.count = tonumber(redis.call('GET', key) or '0')
    if not m.count then return redis.error_reply('ERR value is not an integer or out of range') end
  end
  members[i] = m
end

local function admits(m, hits)
  if hits > m.most then return false end
  if m.algorithm == '1' then return m.previous * m.rest <= (m.limit - m.current - hits) * m.window end
  if m.algorithm == '2' then return m.debt + hits * m.window <= m.burst * m.window end
  return m.count + hits <= m.limit
end

local function add(m, hits)
  if m.algorithm == '1' then m.current = m.current + hits
  elseif m.algorithm == '2' then m.debt = m.debt + hits * m.window
  else m.count = m.count + hits end
  m.added = m.added + hits
end

local function remaining(m)
  if m.algorithm == '1' then
    return math.max(0, math.floor((m.limit * m.window - m.previous * m.rest) / m.window) - m.current)
  elseif m.algorithm == '2' then
    if m.limit == 0 then return 0 end
    return math.max(0, math.floor((m.burst * m.window - m.debt) / m.window))
  end
  return math.max(0, m.limit - m.count)
end

local function rest_that_fits(m, hits, room)
  if hits == 0 then return m.window end
  return math.floor(room * m.window / hits)
end

local function wait(m, hits)
  if m.algorithm == '0' then return 0 end
  if hits > m.most then return -1 end
  if m.algorithm == '2' then
    return math.max(0, math.ceil((m.debt + hits * m.window - m.burst * m.window) / m.limit))
  end
  local room = m.limit - m.current - hits
  if room >= 0 then return math.max(0, m.rest - rest_that_fits(m, m.previous, room)) end
  return m.rest + math.max(0, m.window - rest_that_fits(m, m.current, m.limit - hits))
end

local replies, at, counted = {}, 7 * #members + 2, false
for call = 1, tonumber(ARGV[2]) do
  local admitted, refused = {}, false
  for i, m in ipairs(members) do
    local hits = tonumber(ARGV[at + i])
    counted = counted or hits > 0
    admitted[i] = admits(m, math.max(1, hits))
    refused = refused or not (admitted[i] or m.shadow)
  end
  for i, m in ipairs(members) do
    local hits = tonumber(ARGV[at + i])
    if admitted[i] and not refused then add(m, hits) end
    replies[#replies + 1] = admitted[i] and 1 or 0
    replies[#replies + 1] = remaining(m)
    replies[#replies + 1] = wait(m, math.max(1, hits))
  end
  at = at + #members
end

for _, m in ipairs(members) do
  local ticks = 0
  if m.algorithm == '0' then
    if m.added > 0 and redis.call('INCRBY', m.key, m.added) == m.added then
      redis.call('EXPIRE', m.key, m.expiry)
    end
  elseif m.added > 0 or (m.changed and counted) then
    if m.algorithm == '1' then
      redis.call('HSET', m.key, 'start', m.start / m.rate, 'previous', m.previous, 'current', m.current)
      ticks = m.rest + m.window
    else
      redis.call('HSET', m.key, 'debt', m.debt, 'time', m.now, 'rate', m.rate)
      if m.limit > 0 then ticks = math.ceil(m.debt / m.limit) end
    end
    if m.added > 0 and ARGV[1] == '-1' then
      redis.call('PEXPIRE', m.key, math.min(${maxExpiryMs}, math.ceil(ticks * (1000 / m.rate))))
    end
  end
end
return replies
`

/**
 * Returns the time of the algorithms for a call, in microseconds since the epoch; undefined for that of
 * Redis. Only tests pass one; the state does not expire then, since expiry has the time of Redis.
 */
export type TimeMicros = (members: readonly Member[]) => number | undefined

export function admissionScript(
  timeMicros: TimeMicros = () => undefined,
): Script<FoldedCalls, FoldedOutcomes> {
  return {
    text,
    argumentCount: ({ members, calls }) => 2 + 8 * members.length + calls.length * members.length,
    keyCount: ({ members }) => members.length,
    write(requests, { members, calls }) {
      for (const { key } of members) requests.text(key)
      requests.text(`${timeMicros(members) ?? -1}`)
      requests.integer(calls.length)
      for (const member of members) writeLimit(requests, member)
      for (const call of calls) for (const { hits } of call) requests.integer(hits)
    },
    read: (reply, { members, calls }) => readOutcomes(reply, members, calls.length),
  }
}

function writeLimit(requests: RequestWriter, member: Member): void {
  requests.integer(numberOf[member.algorithm])
  requests.integer(member.limit)
  requests.integer(member.burst)
  requests.integer(member.windowTicks)
  requests.integer(member.ticksPerSecond)
  requests.integer(member.expirySeconds)
  requests.integer(member.shadow ? 1 : 0)
}

const valuesPerMember = 3

function readOutcomes(
  reply: Reply,
  members: readonly Member[],
  calls: number,
): FoldedOutcomes | CountersError {
  if (!isArrayReply(reply) || reply.length !== valuesPerMember * members.length * calls) {
    return new CountersError('Redis did not answer a script with a list of the expected length')
  }
  return Array.from({ length: calls }, (_, call) =>
    members.map((member, index) => {
      const at = valuesPerMember * (call * members.length + index)
      return outcomeOf(member, Number(reply[at]), Number(reply[at + 1]), Number(reply[at + 2]))
    }),
  )
}

function outcomeOf(
  { ticksPerSecond }: Member,
  admitted: number,
  remaining: number,
  wait: number,
): MemberOutcome {
  return {
    admitted: admitted === 1,
    remaining,
    waitSeconds: wait < 0 ? undefined : wait / ticksPerSecond,
  }
}
