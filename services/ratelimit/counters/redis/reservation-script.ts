import type { LimitCheck } from '../admission/limit-check.ts'
import { CountersError } from '../counters.ts'
import {
  endedMemoryMs,
  maxReservations,
  type OpenReservations,
  type Reservation,
  type ReservationChange,
  type ReservationOutcome,
  TooManyReservationsError,
  toReservingChecks,
} from '../reservations.ts'
import { stateFunctions, type TimeMicros, valuesPerLimit, writeLimit } from './admission-script.ts'
import { isArrayReply, type RedisReply } from './resp/reply-parser.ts'
import type { RespWriter } from './resp/request-writer.ts'
import type { Script } from './send-scripts.ts'

/** A call of one ledger. */
export interface ReservationRun {
  readonly ledgerKey: string
  /** Empty for the reads, which need no limit. */
  readonly checks: readonly LimitCheck[]
  readonly entry: string
  readonly call:
    | { readonly do: 'reserve'; readonly amount: number; readonly ttlMs: number }
    | ReservationChange
    | { readonly do: 'list' }
    | { readonly do: 'limits' }
}

export type ReservationReply = StoredOutcome | OpenReservations | LimitsOfLedger | TooManyReservationsError

export interface StoredOutcome extends ReservationOutcome {
  /** Whether no other reservation of the ledger expires earlier. */
  readonly isFirst: boolean
}

/** The limits of a ledger as its last reservation had them; undefined for a ledger without reservations. */
export interface LimitsOfLedger {
  readonly checks: readonly LimitCheck[] | undefined
}

/** At most this many reservations of a ledger end in one call; the next calls end more. */
const dueInOneCall = 1_000

/** A rejection reads as many reservations to find out when the limit has room; they may not suffice. */
const readForRoom = 100

/**
 * Does one call of `Reservations`. The rules are those of `MemoryReservations`; the contract tests both.
 *
 * A reservation is stored as its state (o for open, c for committed, r for released, x for expired), the
 * amount, what was used, when it expires and when it was made, in microseconds, and the hits that each limit
 * counts for it.
 *
 * KEYS: the ledger, a hash of the reservations by their entries, of the limits under the empty name, and of
 * what is reserved under `sum`; sorted sets of the entries of open reservations by when they expire, and of
 * ended ones by when they are forgotten; then the limits. ARGV: the time and the limits as in the admission
 * script, then the call, the entry, the amount or what was used, the time to live in microseconds, and the
 * limits as JSON.
 *
 * The reply is the state, or an empty text, the amount, what was used, the expiry, and whether no other
 * reservation expires earlier; and for each limit whether it admits the amount, the remaining hits, the wait
 * in ticks, when it has room, and whether it counts less than before.
 */
const text = `${stateFunctions}
local entries, opened, ended = KEYS[1], KEYS[2], KEYS[3]
local what, name, number, ttl = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
local whole = function(n) return string.format('%.0f', n) end

if what == 'limits' then return call('HGET', entries, '') end

local states = {}
for i, l in ipairs(limits) do
  states[i] = open(KEYS[i + 3], l)
  if states[i].problem then return { err = states[i].problem } end
end

local function read(entry)
  local stored = call('HGET', entries, entry)
  if not stored then return nil end
  local state, amount, actual, expires, made, list =
    string.match(stored, '^(%a) (%d+) (%d+) (%d+) (%d+) ([%d,]*)$')
  local r = { entry = entry, state = state, counted = {} }
  r.amount, r.actual, r.expires, r.made = tonumber(amount), tonumber(actual), tonumber(expires), tonumber(made)
  for each in string.gmatch(list, '%d+') do r.counted[#r.counted + 1] = tonumber(each) end
  return r
end

local function store(r)
  local counted = {}
  for i, hits in ipairs(r.counted) do counted[i] = whole(hits) end
  local numbers = { r.state, whole(r.amount), whole(r.actual), whole(r.expires), whole(r.made) }
  call('HSET', entries, r.entry, table.concat(numbers, ' ') .. ' ' .. table.concat(counted, ','))
end

local function same_window(l, micros)
  if l.algorithm ~= SLIDING then return true end
  local ticks = floor(micros / (1000000 / l.rate))
  return ticks - ticks % l.window == l.now - l.now % l.window
end

local function end_of_hold(l) return floor((now + ttl) / (1000000 / l.rate)) end

-- Counts hits instead of those of the reservation. Nothing that was used stays held.
local function count_instead(r, hits)
  for i, s in ipairs(states) do
    local l = limits[i]
    local more = hits - (r.counted[i] or 0)
    if l.algorithm == CONCURRENCY then
      if r.counted[i] > 0 then change_hold(s, l, r.counted[i], r.entry) end
      s.less = true
    elseif more > 0 then add(s, l, min(more, room(s, l)))
    elseif more < 0 and same_window(l, r.made) then
      give_back(s, l, -more)
      s.less = true
    end
    r.counted[i] = 0
  end
end

local function finish(r, state, actual, micros)
  if call('ZREM', opened, r.entry) == 1 then call('HINCRBY', entries, 'sum', whole(-r.amount)) end
  call('ZADD', ended, whole(micros + ${endedMemoryMs * 1000}), r.entry)
  r.state, r.actual = state, actual
  store(r)
end

local function is_due(set) return call('ZRANGEBYSCORE', set, '-inf', whole(now), 'LIMIT', 0, ${dueInOneCall}) end

for _, entry in ipairs(is_due(opened)) do
  local r = read(entry)
  if r then
    count_instead(r, 0)
    finish(r, 'x', 0, r.expires)
  else
    call('ZREM', opened, entry)
  end
end
for _, entry in ipairs(is_due(ended)) do
  call('HDEL', entries, entry)
  call('ZREM', ended, entry)
end

local admitted, rooms = {}, {}
local r = name ~= '' and read(name)
local problem

local function reserve()
  if call('HLEN', entries) > ${maxReservations} then
    problem = 'FULL'
    return
  end
  local rejected, missing = false, {}
  for i, s in ipairs(states) do
    local l = limits[i]
    admitted[i] = admits(s, l, number)
    if not admitted[i] then missing[i] = number - remaining(s, l) end
    rejected = rejected or not (admitted[i] or l.shadow)
  end
  if not rejected then
    r = { entry = name, state = 'o', amount = number, actual = 0, expires = now + ttl, made = now, counted = {} }
    for i, s in ipairs(states) do
      r.counted[i] = admitted[i] and number or 0
      if limits[i].algorithm ~= CONCURRENCY then add(s, limits[i], r.counted[i])
      elseif admitted[i] then add_hold(s, limits[i], number, name, end_of_hold(limits[i])) end
    end
    store(r)
    call('ZADD', opened, whole(r.expires), name)
    call('HINCRBY', entries, 'sum', whole(number))
    call('HSET', entries, '', ARGV[at + 5])
    return
  end
  for _, entry in ipairs(call('ZRANGE', opened, 0, ${readForRoom - 1})) do
    local other = read(entry)
    for i, left in pairs(missing) do
      if other and left > 0 then
        missing[i] = left - (other.counted[i] or 0)
        if missing[i] <= 0 then rooms[i] = other.expires end
      end
    end
  end
end

if what == 'reserve' then
  if not r then reserve() end
elseif r and what == 'extend' and r.state == 'o' then
  for i, s in ipairs(states) do
    local l = limits[i]
    if l.algorithm == CONCURRENCY and r.counted[i] > 0 then
      change_hold(s, l, r.counted[i], name, end_of_hold(l))
    end
  end
  r.expires = now + ttl
  store(r)
  call('ZADD', opened, whole(r.expires), name)
elseif r and what == 'release' and r.state == 'o' then
  count_instead(r, 0)
  finish(r, 'r', 0, now)
elseif r and what == 'commit' and (r.state == 'o' or r.state == 'x') then
  count_instead(r, number)
  finish(r, 'c', number, now)
end

for _, s in ipairs(states) do save(s) end
if ARGV[1] == '-1' then
  local ms = 0
  for _, set in ipairs({ opened, ended }) do
    local last = call('ZREVRANGE', set, 0, 0, 'WITHSCORES')[2]
    if last then ms = max(ms, ceil((tonumber(last) - now) / 1000)) end
  end
  for i = 1, 3 do call('PEXPIRE', KEYS[i], ms + ${endedMemoryMs}) end
end

if problem then return problem end
if what == 'list' then
  local first = call('ZRANGE', opened, 0, 0, 'WITHSCORES')
  local sum = tonumber(call('HGET', entries, 'sum') or '0')
  local listed = { call('ZCARD', opened), sum, tonumber(first[2] or '-1') }
  for i, s in ipairs(states) do listed[i + 3] = s.less and 1 or 0 end
  return listed
end
local replies = r and { r.state, r.amount, r.actual, r.expires } or { '', 0, 0, 0 }
replies[5] = call('ZRANGE', opened, 0, 0)[1] == name and 1 or 0
for i, s in ipairs(states) do
  local l, place = limits[i], 5 + 5 * (i - 1)
  replies[place + 1] = admitted[i] and 1 or 0
  replies[place + 2] = remaining(s, l)
  replies[place + 3] = wait(s, l, max(1, number))
  replies[place + 4] = rooms[i] or -1
  replies[place + 5] = s.less and 1 or 0
end
return replies
`

const states = { o: 'open', c: 'committed', r: 'released', x: 'expired' } as const
const headValues = 5
const valuesOfLimit = 5

export function reservationScript(
  timeMicros: TimeMicros = () => undefined,
): Script<ReservationRun, ReservationReply> {
  return {
    text,
    argumentCount: ({ checks }) => 3 + checks.length + 2 + valuesPerLimit * checks.length + 5,
    keyCount: ({ checks }) => 3 + checks.length,
    write(requests, { ledgerKey, checks, entry, call }) {
      requests.text(ledgerKey)
      requests.text(`${ledgerKey}:open`)
      requests.text(`${ledgerKey}:ended`)
      for (const { key } of checks) requests.text(key)
      requests.text(`${timeMicros(checks) ?? -1}`)
      requests.integer(checks.length)
      for (const check of call.do === 'reserve' ? toReservingChecks(checks, 0) : checks) {
        writeLimit(requests, check)
      }
      requests.text(call.do)
      requests.text(entry)
      writeNumbers(requests, call)
      requests.text(call.do === 'reserve' ? JSON.stringify(checks) : '')
    },
    read: readReply,
  }
}

function writeNumbers(requests: RespWriter, call: ReservationRun['call']): void {
  requests.integer(call.do === 'reserve' ? call.amount : call.do === 'commit' ? call.actual : 0)
  requests.integer('ttlMs' in call ? call.ttlMs * 1000 : 0)
}

function readReply(reply: RedisReply, { call, checks }: ReservationRun): ReservationReply | CountersError {
  if (call.do === 'limits') {
    return { checks: typeof reply === 'string' ? JSON.parse(reply) : undefined }
  }
  if (reply === 'FULL')
    return new TooManyReservationsError('there are too many reservations of this descriptor')
  const length = call.do === 'list' ? 3 + checks.length : headValues + valuesOfLimit * checks.length
  if (!isArrayReply(reply) || reply.length !== length) {
    return new CountersError('Redis did not answer a script with a list of the expected length')
  }
  if (call.do !== 'list') {
    const outcome = toOutcome(reply, checks)
    const isUnknown = outcome.reservation === undefined && call.do !== 'reserve'
    return isUnknown ? { ...outcome, limits: [] } : outcome
  }
  const [count, amount, first] = reply.map(Number) as [number, number, number]
  const decreased = checks.filter((_, index) => reply[3 + index] === 1).map(({ key }) => key)
  return { count, amount, nextExpiryMs: first < 0 ? undefined : first / 1000, decreased }
}

function toOutcome(reply: readonly RedisReply[], checks: readonly LimitCheck[]): StoredOutcome {
  const state = states[reply[0] as keyof typeof states] as Reservation['state'] | undefined
  const [amount, actual, expiresAt] = [reply[1], reply[2], reply[3]].map(Number) as [number, number, number]
  const decreased: string[] = []
  const limits = checks.map(({ key, ticksPerSecond }, index) => {
    const from = headValues + valuesOfLimit * index
    const numbers = reply.slice(from, from + valuesOfLimit).map(Number)
    const [admitted, remaining = 0, wait = 0, roomAt = 0, isLess] = numbers
    if (isLess === 1) decreased.push(key)
    return {
      admitted: admitted === 1,
      remaining,
      waitSeconds: wait < 0 ? undefined : wait / ticksPerSecond,
      roomAtMs: roomAt < 0 ? undefined : roomAt / 1000,
    }
  })
  const reservation = state && { state, amount, actual, expiresAtMs: expiresAt / 1000 }
  return { reservation, limits, decreased, isFirst: reply[4] === 1 }
}
