import { reservedParts, type ShareHolder } from '../../shares/shares.ts'
import { type BucketRenewal, type BucketShares, bucketGrantMs, maxBucketMembers } from '../bucket-shares.ts'
import { CountersError } from '../counters.ts'
import type { TimeMicros } from './admission-script.ts'
import { findHashSlot } from './cluster/hash-slot.ts'
import type { Script } from './send-scripts.ts'

/** A call of one bucket, or of a shard as a whole. */
export interface BucketSharesRun {
  /** The key of the shard says since when Redis has its data; see `text`. */
  readonly shardKey: string
  readonly bucketKey: string
  readonly call:
    | ({ readonly do: 'renew' } & Omit<BucketRenewal, 'bucket'>)
    | { readonly do: 'move'; readonly member: string; readonly to: string; readonly amount: number }
    | { readonly do: 'leave'; readonly member: string }
    | { readonly do: 'read' }
    | { readonly do: 'begin' }
}

/** A number, or the list that the call returns; see `text`. */
export type BucketSharesReply = number | readonly unknown[]

/** In a cluster, buckets are in as many slots. */
const shards = 16

/** How often a process checks that the key of each shard exists. */
const beginEveryMs = 60_000

interface RedisBucketSharesOptions {
  readonly keyPrefix: string
  /** Runs the script where the bucket is. Rejects with a `CountersError`. */
  readonly run: (run: BucketSharesRun) => Promise<BucketSharesReply>
  readonly monotonicMs: () => number
}

/** Divides the limits of buckets in Redis, where each bucket is a key. */
export class RedisBucketShares implements BucketShares {
  readonly #options: RedisBucketSharesOptions
  #begunMs = Number.NEGATIVE_INFINITY
  #learnUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: RedisBucketSharesOptions) {
    this.#options = options
  }

  async renew({ bucket, ...renewal }: BucketRenewal): Promise<number> {
    this.#begin()
    const reply = await this.#run(bucket, { do: 'renew', ...renewal })
    if (typeof reply === 'number') return reply
    const [granted, learningMs] = reply
    this.#learnUntilMs = Math.max(this.#learnUntilMs, this.#options.monotonicMs() + Number(learningMs))
    return Number(granted)
  }

  async move(bucket: string, from: string, to: string, amount: number): Promise<number> {
    return Number(await this.#run(bucket, { do: 'move', member: from, to, amount }))
  }

  async leave(bucket: string, member: string): Promise<undefined> {
    await this.#run(bucket, { do: 'leave', member })
  }

  async read(bucket: string): Promise<readonly ShareHolder[]> {
    const reply = await this.#run(bucket, { do: 'read' })
    const holders: ShareHolder[] = []
    for (let at = 0; typeof reply !== 'number' && at < reply.length; at += fieldsOfHolder) {
      const [name, wanted, granted, expiresInMs] = reply.slice(at, at + fieldsOfHolder)
      holders.push({
        name: `${name}`,
        wanted: Number(wanted),
        granted: Number(granted),
        expiresInMs: Number(expiresInMs),
      })
    }
    return holders
  }

  learningMs(): number {
    return Math.max(0, this.#learnUntilMs - this.#options.monotonicMs())
  }

  /** Lets the shards learn now that may have been lost, and not only when the next bucket needs one. */
  #begin(): void {
    const nowMs = this.#options.monotonicMs()
    if (nowMs - this.#begunMs < beginEveryMs) return
    this.#begunMs = nowMs
    for (let shard = 0; shard < shards; shard += 1) {
      const shardKey = this.#shardKey(shard)
      // The renewals of a Redis that is away are rejected, too.
      this.#options.run({ shardKey, bucketKey: shardKey, call: { do: 'begin' } }).catch(() => {})
    }
  }

  #run(bucket: string, call: BucketSharesRun['call']): Promise<BucketSharesReply> {
    const shardKey = this.#shardKey(findHashSlot(bucket) % shards)
    return this.#options.run({ shardKey, bucketKey: `${shardKey}:${bucket}`, call })
  }

  #shardKey(shard: number): string {
    return `${this.#options.keyPrefix}{shares-${shard}}`
  }
}

const fieldsOfHolder = 4

/**
 * Does one call of `BucketShares`. The rules are those of `Shares` and `divide`, with the same operations in
 * the same order: `redis-bucket-shares.test.ts` compares both.
 *
 * KEYS: the shard and the bucket, which are hashes. The shard has, without an expiry, the time in milliseconds
 * until which it learns. If it is missing, Redis has lost its data. The bucket has its members in the order in
 * which they have joined. ARGV: the call; the time in milliseconds, or -1 for the time of Redis; the member; and
 * for `renew` the capacity, wanted, held, sequence, weight, floor and the last grant; for `move` the other member and the amount.
 * The answer is a number; for `read` a list of the name, what is wanted and what may be used, and the milliseconds
 * until the expiry of each member; and while Redis learns, for `renew` the grant and the milliseconds that are left.
 */
const text = `\
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local shard, bucket = KEYS[1], KEYS[2]
local what, now, id = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
local learn_until = tonumber(redis.call('HGET', shard, 'learn_until') or nil)
if not learn_until then
  learn_until = now + ${bucketGrantMs}
  redis.call('HSET', shard, 'learn_until', string.format('%.0f', learn_until))
end
if what == 'begin' then return 0 end

local ID, WANTED, WEIGHT, FLOOR, SEQUENCE, HELD, GRANTED, EXPIRES, MOVED_FROM, MOVED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local CONFIRMED = 11
local stored = redis.call('HGET', bucket, 'members')
local members, known, others = {}, nil, 0
for _, m in ipairs(stored and cmsgpack.unpack(stored) or {}) do
  if m[EXPIRES] > now and not (what == 'leave' and m[ID] == id) then
    members[#members + 1] = m
    if m[ID] == id then known = m else others = others + max(m[HELD], m[GRANTED]) end
  end
end
local count = #members

local function join(name)
  count = count + 1
  members[count] = { name, 0, 1, 0, 0, 0, 0, now, '', 0, 0 }
  return members[count]
end

local function save(answer)
  if count == 0 then
    redis.call('DEL', bucket)
    return answer
  end
  local last = now + 1
  for i = 1, count do last = max(last, members[i][EXPIRES]) end
  redis.call('HSET', bucket, 'members', cmsgpack.pack(members))
  redis.call('PEXPIRE', bucket, string.format('%.0f', last - now))
  return answer
end

if what == 'leave' then return save(0) end
if what == 'read' then
  local answer = {}
  for _, m in ipairs(members) do
    for _, field in ipairs({ m[ID], m[WANTED], max(m[HELD], m[GRANTED]), m[EXPIRES] - now }) do
      answer[#answer + 1] = field
    end
  end
  return answer
end
if what == 'move' then
  local target
  for i = 1, count do if members[i][ID] == ARGV[4] then target = members[i] end end
  local before = target and target[MOVED_FROM] == id and target[MOVED] or 0
  if not known or (not target and count >= ${maxBucketMembers}) then return before end
  local counted = max(known[HELD], known[GRANTED])
  local moved = min(tonumber(ARGV[5]), counted)
  if moved == 0 then return before end
  local proven = max(known[CONFIRMED], known[GRANTED])
  local moved_proven = min(moved, proven)
  known[HELD], known[CONFIRMED] = counted - moved, proven - moved_proven
  known[GRANTED], known[MOVED_FROM] = known[CONFIRMED], ''
  target = target or join(ARGV[4])
  target[CONFIRMED] = max(target[CONFIRMED], target[GRANTED]) + moved_proven
  target[HELD] = max(target[HELD], target[GRANTED]) + moved
  target[EXPIRES] = max(target[EXPIRES], known[EXPIRES])
  target[MOVED_FROM], target[MOVED] = id, before + moved_proven
  return save(target[MOVED])
end

local capacity, held, sequence = tonumber(ARGV[4]), tonumber(ARGV[6]), tonumber(ARGV[7])
if not known and count >= ${maxBucketMembers} then return 0 end
if known and sequence <= known[SEQUENCE] then return known[GRANTED] end
local confirmed = min(held, tonumber(ARGV[10]))
if now >= learn_until then confirmed = known and min(held, max(known[CONFIRMED], known[GRANTED])) or 0 end
local member = known or join(id)
member[WANTED], member[SEQUENCE], member[HELD], member[MOVED_FROM] = tonumber(ARGV[5]), sequence, held, ''
member[WEIGHT], member[FLOOR] = tonumber(ARGV[8]), tonumber(ARGV[9])

local usable = capacity - floor(capacity / ${reservedParts})
local most, weights, floors, spare = {}, 0, 0, usable
for i = 1, count do
  local m = members[i]
  most[i] = max(m[WANTED], m[FLOOR])
  weights = weights + m[WEIGHT]
  floors = floors + m[FLOOR]
  spare = spare - most[i]
end
local whole = usable - spare
if spare > 0 then
  local spare_of_weight = spare / (weights + weights / count)
  whole = 0
  for i = 1, count do
    most[i] = most[i] + ceil(spare_of_weight * members[i][WEIGHT])
    whole = whole + most[i]
  end
end

-- Returns what the member gets of an amount that does not suffice. The claims have no floors.
local function fill(amount, wanted, weight)
  local level = 0
  while true do
    local left, above = amount, 0
    for i = 1, count do
      if wanted[i] <= level * weight[i] then left = left - wanted[i] else above = above + weight[i] end
    end
    local next_level = above == 0 and level or left / above
    if next_level <= level then break end
    level = next_level
  end
  local left, cut, mine = amount, {}, 0
  for i = 1, count do
    local part = min(wanted[i], floor(level * weight[i]))
    left = left - part
    if part < wanted[i] then cut[#cut + 1] = { i, level * weight[i] - part } end
    if members[i] == member then mine = part end
  end
  if left > 0 then
    table.sort(cut, function(a, b) return a[2] > b[2] or (a[2] == b[2] and a[1] < b[1]) end)
    for nth = 1, left do if members[cut[nth][1]] == member then mine = mine + 1 end end
  end
  return mine
end

local target
if whole <= usable then
  for i = 1, count do if members[i] == member then target = most[i] end end
else
  local wanted, weight = {}, {}
  for i = 1, count do
    local m = members[i]
    wanted[i], weight[i] = most[i] - m[FLOOR], m[WEIGHT]
    if floors >= usable and floors > 0 then wanted[i], weight[i] = m[FLOOR], max(1, m[FLOOR]) end
  end
  if floors >= usable and floors > 0 then target = fill(usable, wanted, weight)
  else target = member[FLOOR] + fill(usable - floors, wanted, weight) end
end

local room = 0
if now >= learn_until then room = capacity - others end
member[GRANTED] = min(target, max(room, confirmed))
member[CONFIRMED] = confirmed
member[EXPIRES] = now + ${bucketGrantMs}
save(0)
if now < learn_until then return { member[GRANTED], learn_until - now } end
return member[GRANTED]
`

const argumentCounts = { renew: 10, move: 5, leave: 3, read: 3, begin: 3 } as const

export function bucketSharesScript(
  timeMicros: TimeMicros = () => undefined,
): Script<BucketSharesRun, BucketSharesReply> {
  return {
    text,
    argumentCount: ({ call }) => 2 + argumentCounts[call.do],
    keyCount: () => 2,
    write(requests, { shardKey, bucketKey, call }) {
      requests.text(shardKey)
      requests.text(bucketKey)
      requests.text(call.do)
      const micros = timeMicros([])
      requests.integer(micros === undefined ? -1 : Math.floor(micros / 1000))
      requests.text('member' in call ? call.member : '')
      if (call.do === 'move') {
        requests.text(call.to)
        requests.integer(call.amount)
      } else if (call.do === 'renew') {
        const { wanted, held, sequence, weight = 1, floor = 0, granted = held } = call.report
        for (const number of [call.capacity, wanted, held, sequence, weight, floor, granted])
          requests.integer(number)
      }
    },
    read(reply) {
      if (typeof reply === 'number' || Array.isArray(reply)) return reply
      return new CountersError('Redis did not answer a script with a number or a list')
    },
  }
}
