import type { LimitCheck } from '../admission/limit-check.ts'
import { indexOfLimit } from '../batching/admission-runs.ts'
import type { SendCalls } from '../batching/pipeline.ts'
import { createMissingAnswer, type Send } from '../batching/send.ts'
import { CountersError } from '../counters.ts'
import {
  endedMemoryMs,
  maxReservations,
  maxSummed,
  type OpenReservation,
  type OpenReservations,
  type Reservation,
  type ReservationChange,
  type ReservationLimit,
  type ReservationOutcome,
  readForRoom,
  TooManyReservationsError,
} from '../reservations.ts'
import {
  maxExpiryMs,
  stateFunctions,
  type TimeMicros,
  valuesPerLimit,
  writeLimit,
} from './admission-script.ts'
import { isArrayReply, isErrorReply, type RedisReply } from './resp/reply-parser.ts'
import type { RespWriter } from './resp/request-writer.ts'
import type { Script } from './send-scripts.ts'

/** A call of one ledger. */
export interface ReservationRun {
  readonly ledgerKey: string
  /** Empty for the call that reads them. */
  readonly checks: readonly LimitCheck[]
  readonly entry: string
  readonly call:
    | {
        readonly do: 'reserve'
        readonly amount: number
        readonly ttlMs: number
        /** The checks as JSON. */
        readonly limits: string
      }
    | ReservationChange
    | { readonly do: 'read'; readonly listed: number }
    | { readonly do: 'sweep' }
    | { readonly do: 'limits' }
    /** The key of the ledger is that of a request, and the entry is the name of a ledger. */
    | { readonly do: 'assign'; readonly instead: string; readonly ttlMs: number }
}

export type ReservationReply =
  | StoredOutcome
  | OpenReservations
  | SweptLedger
  | LimitsOfLedger
  | AssignedLedger

export interface StoredOutcome extends ReservationOutcome {
  /** Whether the index of ledgers has to be told when the reservation expires. */
  readonly isUnindexed: boolean
}

export interface SweptLedger {
  /** When the next reservation expires, in microseconds of Redis's time; undefined if none is open. */
  readonly nextExpiryMicros: number | undefined
  /** Whether more reservations have expired than one call ends. */
  readonly isMoreDue: boolean
  /** The keys of limits that count less than before the call, because reservations have expired. */
  readonly decreased: readonly string[]
}

export interface LimitsOfLedger {
  /** The checks of the last reservation as JSON; undefined for a ledger without reservations. */
  readonly limits: string | undefined
}

export interface AssignedLedger {
  /** The name of the ledger. */
  readonly assigned: string
}

/**
 * At most this many reservations of a ledger end in one call; the next calls end more. After as many, a run does
 * no further call.
 */
const dueInOneRun = 1_000

/** If the index has not shown a ledger to any process for this time after it was due, it has lost the ledger. */
const lateMicros = 15_000_000

const memoryMicros = endedMemoryMs * 1000

/**
 * Does calls of `Reservations`, one after the other. The rules are those of `MemoryReservations`; the contract tests both.
 *
 * A reservation is stored as its state (o for open, c for committed, r for released, x for expired), the
 * amount, what was used, when it expires and when it was made, in microseconds, and the hits that each limit
 * counts for it, followed by `+` and the shift of the sliding window in which they are, unless that is 0.
 *
 * KEYS: for each call the ledger, a hash of the reservations by their entries, of the limits under the empty name, and of
 * two times: until `kept` neither key of the ledger expires, and when it is `indexed`, the index of ledgers
 * shows it; a sorted set of the entries, by when open reservations expire and, as negative numbers, by when
 * ended ones are forgotten, so that the range from -now to now has exactly what is due; then the limits.
 * ARGV: the time and the limits as in the admission script; then for each call the number of its limits and
 * their indexes, from 0, the name of the call, the entry, the amount or what was used or how many to list, the
 * time to live in microseconds, and the limits as JSON or the ledger that `assign` replaces.
 *
 * The reply has an item for each call, or for the first ones if enough reservations have ended. That of a call
 * is the state, or an empty text, the amount, what was used, the expiry, whether the index has to be told, and
 * whether an earlier call made the reservation; and for each limit whether it admits the amount, the remaining hits, the wait in ticks, when it
 * has room, and whether it counts less than before. That of `read` is the number of open reservations, of how
 * many the amounts are summed, and the sum; whether each limit counts less than before; and for each listed
 * reservation the entry, the amount and the expiry. That of `sweep` is the next expiry or -1, whether it has
 * passed already, and whether each limit counts less than before.
 */
const text = `${stateFunctions}
local all, keys_read, ended = limits, 0, 0
local entries, due, what, name, number, ttl, json, states, unindexed
local format, match = string.format, string.match
local whole = function(n) return format('%.0f', n) end
local now_text, ago_text = whole(now), whole(-now)

local function parse(entry, stored)
  if not stored then return nil end
  local state, amount, actual, expires, made, list = match(stored, '^(%a) (%d+) (%d+) (%d+) (%d+) ([%d,+]*)$')
  local r = { entry = entry, state = state, counted = {}, shifts = {} }
  r.amount, r.actual, r.expires, r.made = tonumber(amount), tonumber(actual), tonumber(expires), tonumber(made)
  for hits, shift in string.gmatch(list, '(%d+)%+?(%d*)') do
    r.counted[#r.counted + 1] = tonumber(hits)
    r.shifts[#r.counted] = tonumber(shift) or 0
  end
  return r
end

local function to_text(r)
  local counted = {}
  for i, hits in ipairs(r.counted) do
    counted[i] = whole(hits)
    if r.shifts[i] > 0 then counted[i] = counted[i] .. '+' .. whole(r.shifts[i]) end
  end
  local list = table.concat(counted, ',')
  return format('%s %.0f %.0f %.0f %.0f %s', r.state, r.amount, r.actual, r.expires, r.made, list)
end

-- Returns whether the limit still counts the hits of the reservation where they can be given back: a sliding
-- window only those of the current window, which a step of the clock does not change.
local function counts_still(r, i)
  local l, s = limits[i], states[i]
  if l.algorithm ~= SLIDING then return true end
  local ticks = floor(r.made / (1000000 / l.rate))
  local shift = shift_of(s, l)
  return shift >= r.shifts[i] and s.start / l.rate + shift == (ticks - ticks % l.window) / l.rate + r.shifts[i]
end

-- Returns for how many microseconds from now on a limit counts what is added to it.
local function counts_for(l)
  if l.algorithm == FIXED then return l.expiry * 1000000 end
  return min(${maxExpiryMs * 1000}, l.window * l.most / max(1, l.limit) / l.rate * 1000000)
end

local function end_of_hold(l) return floor((now + ttl) / (1000000 / l.rate)) end

-- Counts hits instead of those of the reservation. Nothing that was used stays held; a hold ends by itself when
-- its reservation expires.
local function count_instead(r, hits)
  for i, s in ipairs(states) do
    local l = limits[i]
    local more = hits - (r.counted[i] or 0)
    if l.algorithm == CONCURRENCY then
      if r.counted[i] > 0 and r.expires > now then change_hold(s, l, r.counted[i], r.entry) end
      s.less = true
    elseif more > 0 then add(s, l, min(more, room(s, l)))
    elseif more < 0 and counts_still(r, i) then
      give_back(s, l, -more)
      s.less = true
    end
    r.counted[i] = 0
  end
end

local function finish(r, state, actual, micros)
  r.state, r.actual = state, actual
  call('HSET', entries, r.entry, to_text(r))
  call('ZADD', due, whole(-micros - ${memoryMicros}), r.entry)
end

-- Ends the reservations that have expired, and forgets those that ended long ago.
local function end_due()
  local forgotten = false
  local names = call('ZREVRANGEBYSCORE', due, now_text, ago_text, 'LIMIT', 0, ${dueInOneRun})
  for _, entry in ipairs(names) do
    local r = parse(entry, call('HGET', entries, entry))
    local is_open = r and r.state == 'o'
    if is_open then count_instead(r, 0) end
    if is_open and r.expires + ${memoryMicros} > now then
      finish(r, 'x', 0, r.expires)
    else
      call('HDEL', entries, entry)
      call('ZREM', due, entry)
      forgotten = true
    end
  end
  ended = ended + #names
  if forgotten and call('ZCARD', due) == 0 then call('DEL', entries) end
end

local function keep_until(micros)
  if ARGV[1] ~= '-1' then return end
  for _, key in ipairs({ entries, due }) do call('PEXPIRE', key, ceil((micros - now) / 1000)) end
end

-- Stores an open reservation, and what the ledger needs to know for it: its limits and times are stored already.
local function store_open(r, stored)
  local fields = { r.entry, to_text(r) }
  local function set(field, value)
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if what == 'reserve' and stored[2] ~= json then set('', json) end
  -- It may be committed when it has expired, and is remembered then.
  local kept, indexed = tonumber(stored[3] or '0'), tonumber(stored[4] or '0')
  local needed = r.expires + ${2 * memoryMicros}
  -- If nobody comes for long, or if the clock steps, the limits must get the amount back all the same.
  for _, l in ipairs(limits) do needed = max(needed, now + counts_for(l)) end
  local extends = kept < needed
  if extends then
    kept = needed + ${memoryMicros}
    set('kept', whole(kept))
  end
  if indexed > r.expires or indexed < now - ${lateMicros} then
    set('indexed', whole(r.expires))
    unindexed = 1
  end
  call('HSET', entries, unpack(fields))
  call('ZADD', due, whole(r.expires), r.entry)
  if extends then keep_until(kept) end
end

-- Keeps a ledger without open reservations only as long as it remembers ended ones.
local function rest()
  call('HDEL', entries, 'indexed')
  local kept = now + ${memoryMicros}
  if not call('HGET', entries, 'kept') then return end
  call('HSET', entries, 'kept', whole(kept))
  keep_until(kept)
end

-- Reserves if all limits admit it. Returns the reservation, which limits admit it, and when others have room.
local function reserve(stored)
  local rejected, missing, admitted, rooms = false, {}, {}, {}
  for i, s in ipairs(states) do
    local l = limits[i]
    admitted[i] = admits(s, l, number)
    if not admitted[i] then missing[i] = number - remaining(s, l) end
    rejected = rejected or not (admitted[i] or l.shadow)
  end
  if not rejected then
    local r = { entry = name, state = 'o', amount = number, actual = 0, expires = now + ttl, made = now }
    r.counted, r.shifts = {}, {}
    for i, s in ipairs(states) do
      r.counted[i] = admitted[i] and number or 0
      r.shifts[i] = limits[i].algorithm == SLIDING and shift_of(s, limits[i]) or 0
      if limits[i].algorithm ~= CONCURRENCY then add(s, limits[i], r.counted[i])
      elseif admitted[i] then add_hold(s, limits[i], number, name, end_of_hold(limits[i])) end
    end
    store_open(r, stored)
    return r, admitted, rooms
  end
  for _, entry in ipairs(call('ZRANGEBYSCORE', due, 0, '+inf', 'LIMIT', 0, ${readForRoom})) do
    local other = parse(entry, call('HGET', entries, entry))
    for i, left in pairs(missing) do
      if other and left > 0 then
        missing[i] = left - (other.counted[i] or 0)
        if missing[i] <= 0 then rooms[i] = other.expires end
      end
    end
  end
  return nil, admitted, rooms
end

local function extend(r, stored)
  -- The clock may step back after a hold has ended; or all of it was given back.
  local is_held = true
  for i, s in ipairs(states) do
    local l = limits[i]
    if l.algorithm == CONCURRENCY and r.counted[i] > 0 then
      is_held = change_hold(s, l, r.counted[i], name, end_of_hold(l)) and is_held
    end
  end
  if is_held then
    r.expires = now + ttl
    store_open(r, stored)
  else
    count_instead(r, 0)
    finish(r, 'x', 0, now)
  end
end

local function save_all()
  for _, s in ipairs(states) do save(s) end
end

local function list_open()
  local sum, listed = 0, {}
  local names = call('ZRANGEBYSCORE', due, 0, '+inf', 'LIMIT', 0, ${maxSummed})
  local stored = #names > 0 and call('HMGET', entries, unpack(names)) or {}
  for _, text in ipairs(stored) do sum = sum + (text and tonumber(match(text, '^%a (%d+)')) or 0) end
  for i = 1, min(#names, number) do
    local each = parse(names[i], stored[i])
    if each then
      for _, value in ipairs({ each.entry, each.amount, each.expires }) do listed[#listed + 1] = value end
    end
  end
  local told = { call('ZCOUNT', due, 0, '+inf'), #names, sum }
  for _, s in ipairs(states) do told[#told + 1] = s.less and 1 or 0 end
  for _, value in ipairs(listed) do told[#told + 1] = value end
  return told
end

local function sweep()
  local first = call('ZRANGEBYSCORE', due, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] then call('HSET', entries, 'indexed', first[2]) else rest() end
  local expires = tonumber(first[2] or '-1')
  local swept = { expires, (first[2] and expires <= now) and 1 or 0 }
  for i, s in ipairs(states) do swept[i + 2] = s.less and 1 or 0 end
  return swept
end

local function change()
  local stores = what == 'reserve' or what == 'extend'
  local stored = stores and call('HMGET', entries, name, '', 'kept', 'indexed') or { call('HGET', entries, name) }
  local r, admitted, rooms = parse(name, stored[1]), {}, {}
  if what == 'reserve' and not r then
    if call('ZCARD', due) >= ${maxReservations} then
      save_all()
      return 'FULL'
    end
    r, admitted, rooms = reserve(stored)
  elseif what == 'reserve' then
    -- The process that made it may have been killed before it told the index.
    unindexed = r.state == 'o' and 1 or 0
  elseif r and what == 'extend' and r.state == 'o' then
    extend(r, stored)
  elseif r and what == 'release' and r.state == 'o' then
    count_instead(r, 0)
    finish(r, 'r', 0, now)
  elseif r and what == 'commit' and (r.state == 'o' or r.state == 'x') then
    count_instead(r, number)
    finish(r, 'c', number, now)
  end
  save_all()
  local known = stored[1] and 1 or 0
  local replies = r and { r.state, r.amount, r.actual, r.expires, unindexed, known } or { '', 0, 0, 0, 0, 0 }
  for i, s in ipairs(states) do
    local l, place = limits[i], 6 + 5 * (i - 1)
    replies[place + 1] = admitted[i] and 1 or 0
    replies[place + 2] = remaining(s, l)
    replies[place + 3] = wait(s, l, max(1, number))
    replies[place + 4] = rooms[i] or -1
    replies[place + 5] = s.less and 1 or 0
  end
  return replies
end

local function assign()
  local known = call('HGET', entries, 'ledger')
  if known and known ~= json then return known end
  call('HSET', entries, 'ledger', name)
  call('PEXPIRE', entries, ceil(ttl / 1000))
  return name
end

local function run()
  local count, first = tonumber(ARGV[at + 1]), keys_read
  entries, due, limits, states, unindexed = KEYS[first + 1], KEYS[first + 2], {}, {}, 0
  for i = 1, count do limits[i] = all[ARGV[at + 1 + i] + 1] end
  at = at + 1 + count
  what, name, number, ttl, json = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), ARGV[at + 5]
  at, keys_read = at + 5, first + 2 + count
  if what == 'limits' then return call('HGET', entries, '') end
  if what == 'assign' then return assign() end
  for i, l in ipairs(limits) do
    states[i] = open(KEYS[first + 2 + i], l)
    if states[i].problem then return { err = states[i].problem } end
  end
  end_due()
  if what ~= 'read' and what ~= 'sweep' then return change() end
  save_all()
  return what == 'read' and list_open() or sweep()
end

local replies = {}
while ARGV[at + 1] and ended < ${dueInOneRun} do replies[#replies + 1] = run() end
return replies
`

const states = { o: 'open', c: 'committed', r: 'released', x: 'expired' } as const
const valuesPerRun = 6
const headValues = 6
const valuesOfLimit = 5
const valuesOfListed = 3

/** Calls that one run of the script does, in the order of arrival. */
export class ReservationBatch {
  readonly runs: ReservationRun[] = []
  /** For each distinct limit, one check that has it. */
  readonly limits: LimitCheck[] = []
  /** The index of the limit of each check of each run. */
  readonly limitIndexes: number[] = []

  add(run: ReservationRun): void {
    this.runs.push(run)
    for (const check of run.checks) this.limitIndexes.push(indexOfLimit(this.limits, check))
  }
}

/** An answer for each call of the run; the last ones may be missing, which have not been done. */
export type ReservationReplies = readonly (ReservationReply | CountersError)[]

export function reservationScript(
  timeMicros: TimeMicros = () => undefined,
): Script<ReservationBatch, ReservationReplies> {
  return {
    text,
    argumentCount: ({ runs, limits, limitIndexes }) =>
      2 + valuesPerLimit * limits.length + (2 + valuesPerRun) * runs.length + 2 * limitIndexes.length,
    keyCount: ({ runs, limitIndexes }) => 2 * runs.length + limitIndexes.length,
    write(requests, { runs, limits, limitIndexes }) {
      for (const { ledgerKey, checks } of runs) {
        requests.text(ledgerKey)
        requests.text(`${ledgerKey}:due`)
        for (const { key } of checks) requests.text(key)
      }
      requests.text(`${timeMicros(runs[0]?.checks ?? []) ?? -1}`)
      requests.integer(limits.length)
      for (const limit of limits) writeLimit(requests, limit)
      let next = 0
      for (const { checks, entry, call } of runs) {
        requests.integer(checks.length)
        for (const end = next + checks.length; next < end; next++) requests.integer(limitIndexes[next] ?? 0)
        requests.text(call.do)
        requests.text(entry)
        writeNumbers(requests, call)
        requests.text(toText(call))
      }
    },
    read(reply, { runs }) {
      if (!isArrayReply(reply) || reply.length === 0 || reply.length > runs.length) return wrongLength()
      return reply.map((each, index) => readReply(each, runs[index] as ReservationRun))
    },
  }
}

/**
 * Sends calls in as few runs as possible. What a run has not done is sent again.
 *
 * @param findSlot returns a number that all ledgers of a run must share: the slot of a Redis Cluster
 */
export function sendReservations(
  send: Send<ReservationBatch, ReservationReplies>,
  findSlot: (key: string) => number = () => 0,
): SendCalls<ReservationRun, ReservationReply> {
  return (calls, onAnswers) => {
    const runs = calls.map(({ batch }) => batch[0] as ReservationRun)
    const all: (ReservationReply | CountersError)[] = []
    const sendSome = (positions: Iterable<number>) => {
      const parts = Map.groupBy(positions, at => findSlot(runs[at]?.ledgerKey ?? ''))
      const sent = [...parts.values()]
      const batches = sent.map(part => {
        const batch = new ReservationBatch()
        for (const at of part) batch.add(runs[at] as ReservationRun)
        return batch
      })
      send(batches, (answers, problem) => {
        const rest: number[] = []
        for (const [index, part] of sent.entries()) {
          const answer = answers[index] ?? createMissingAnswer(problem)
          for (const [place, at] of part.entries()) {
            const reply = answer instanceof CountersError ? answer : answer[place]
            if (reply === undefined) rest.push(at)
            else all[at] = reply
          }
        }
        if (rest.length > 0) sendSome(rest)
        else
          onAnswers(index =>
            all[index] instanceof CountersError ? all[index] : [all[index] as ReservationReply],
          )
      })
    }
    sendSome(calls.keys())
  }
}

function writeNumbers(requests: RespWriter, call: ReservationRun['call']): void {
  requests.integer(toNumber(call))
  requests.integer('ttlMs' in call ? call.ttlMs * 1000 : 0)
}

function toText(call: ReservationRun['call']): string {
  if (call.do === 'assign') return call.instead
  return call.do === 'reserve' ? call.limits : ''
}

function toNumber(call: ReservationRun['call']): number {
  if (call.do === 'reserve') return call.amount
  if (call.do === 'commit') return call.actual
  return call.do === 'read' ? call.listed : 0
}

function readReply(reply: RedisReply, { call, checks }: ReservationRun): ReservationReply | CountersError {
  if (isErrorReply(reply)) return new CountersError(reply.error)
  if (call.do === 'limits') return { limits: typeof reply === 'string' ? reply : undefined }
  if (call.do === 'assign') return { assigned: `${reply}` }
  if (reply === 'FULL') {
    return new TooManyReservationsError(
      `the descriptor has ${maxReservations} reservations, which is the most`,
    )
  }
  if (call.do === 'read') return toOpenReservations(reply, checks)
  const length = call.do === 'sweep' ? 2 + checks.length : headValues + valuesOfLimit * checks.length
  if (!isArrayReply(reply) || reply.length !== length) return wrongLength()
  if (call.do !== 'sweep') {
    const outcome = toOutcome(reply, checks)
    const isUnknown = outcome.reservation === undefined && call.do !== 'reserve'
    return isUnknown ? { ...outcome, limits: [] } : outcome
  }
  const next = Number(reply[0])
  return {
    nextExpiryMicros: next < 0 ? undefined : next,
    isMoreDue: reply[1] === 1,
    decreased: readDecreased(reply, 2, checks),
  }
}

/** Returns the keys of the limits whose flags in the reply, from there on, say that they count less than before. */
function readDecreased(
  reply: readonly RedisReply[],
  from: number,
  checks: readonly LimitCheck[],
): readonly string[] {
  return checks.filter((_, index) => reply[from + index] === 1).map(({ key }) => key)
}

const wrongLength = () =>
  new CountersError('Redis did not answer a script with a list of the expected length')

function toOpenReservations(
  reply: RedisReply,
  checks: readonly LimitCheck[],
): OpenReservations | CountersError {
  const fixed = 3 + checks.length
  const isExpected =
    isArrayReply(reply) && reply.length >= fixed && (reply.length - fixed) % valuesOfListed === 0
  if (!isExpected) return wrongLength()
  const first: OpenReservation[] = []
  for (let at = fixed; at < reply.length; at += valuesOfListed) {
    const [entry, amount, expires] = reply.slice(at, at + valuesOfListed)
    first.push({ entry: `${entry}`, amount: Number(amount), expiresAtMs: Number(expires) / 1000 })
  }
  const decreased = readDecreased(reply, 3, checks)
  const [count, summed, amount] = reply.slice(0, 3).map(Number) as [number, number, number]
  return { count, summed, amount, nextExpiryMs: first[0]?.expiresAtMs, first, decreased }
}

function toOutcome(reply: readonly RedisReply[], checks: readonly LimitCheck[]): StoredOutcome {
  const state = states[reply[0] as keyof typeof states] as Reservation['state'] | undefined
  const decreased: string[] = []
  const limits: ReservationLimit[] = []
  let from = headValues
  for (const { key, ticksPerSecond } of checks) {
    const wait = Number(reply[from + 2])
    const roomAt = Number(reply[from + 3])
    limits.push({
      admitted: reply[from] === 1,
      remaining: Number(reply[from + 1]),
      waitSeconds: wait < 0 ? undefined : wait / ticksPerSecond,
      roomAtMs: roomAt < 0 ? undefined : roomAt / 1000,
    })
    if (reply[from + 4] === 1) decreased.push(key)
    from += valuesOfLimit
  }
  const [amount, actual, expiresAt] = [Number(reply[1]), Number(reply[2]), Number(reply[3])]
  const reservation = state && { state, amount, actual, expiresAtMs: expiresAt / 1000 }
  return { reservation, isRepeated: reply[5] === 1, limits, decreased, isUnindexed: reply[4] === 1 }
}
