import { CountersError } from '../counters.ts'
import { isArrayReply } from './resp/reply-parser.ts'
import type { RespWriter } from './resp/request-writer.ts'
import type { Script } from './send-scripts.ts'

/** A call of the index of all ledgers, which says when a reservation of a ledger expires. */
export interface LedgerIndexRun {
  readonly index: string
  readonly call: IndexCall
}

/**
 * `add` says that a reservation of the ledger expires after a time. `claim` asks for ledgers that are due; other
 * processes get them only if this process does not move them in time. `move` says when a ledger is due next.
 */
type IndexCall =
  | { readonly do: 'add'; readonly ledgerKey: string; readonly ttlMs: number }
  | { readonly do: 'claim' }
  | {
      readonly do: 'move'
      readonly ledgerKey: string
      /** The time at which the ledger was due: `add` may have changed it, and then it is not moved. */
      readonly from: number
      /** Undefined for a ledger that has no open reservations. */
      readonly to: number | undefined
    }

/** A ledger that is claimed until `dueMicros`, in microseconds of Redis's time. */
export interface DueLedger {
  readonly ledgerKey: string
  readonly dueMicros: number
}

/** A process that claimed a ledger has this time to end its reservations. */
const claimMicros = 5_000_000
/** As many ledgers are claimed in one call. */
export const ledgersOfClaim = 100

/**
 * KEYS: the index. ARGV: the call; for `add` then the ledger and the time; for `move` then the ledger,
 * `from`, and `to` or -1.
 */
const text = `\
local index, what, ledger = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local whole = function(n) return string.format('%.0f', n) end
if what == 'add' then
  local at, known = now + ARGV[3], redis.call('ZSCORE', index, ledger)
  -- Another score than before, so that a process that has claimed the ledger does not move it.
  if known then at = math.min(at, tonumber(known) - 1) end
  redis.call('ZADD', index, whole(at), ledger)
  return {}
end
if what == 'move' then
  local known = redis.call('ZSCORE', index, ledger)
  if not known or tonumber(known) ~= tonumber(ARGV[3]) then return {} end
  if ARGV[4] == '-1' then redis.call('ZREM', index, ledger) else redis.call('ZADD', index, ARGV[4], ledger) end
  return {}
end
local due = redis.call('ZRANGEBYSCORE', index, '-inf', whole(now), 'LIMIT', 0, ${ledgersOfClaim})
local claimed = now + ${claimMicros}
for _, each in ipairs(due) do redis.call('ZADD', index, whole(claimed), each) end
due[#due + 1] = whole(claimed)
return due
`

export const ledgerIndexScript: Script<LedgerIndexRun, readonly DueLedger[]> = {
  text,
  argumentCount: ({ call }) => 1 + argumentsOf[call.do],
  keyCount: () => 1,
  write(requests, { index, call }) {
    requests.text(index)
    requests.text(call.do)
    writeArguments(requests, call)
  },
  read(reply) {
    if (!isArrayReply(reply)) return new CountersError('Redis did not answer a script with a list')
    const dueMicros = Number(reply.at(-1))
    return reply.slice(0, -1).map(ledgerKey => ({ ledgerKey: String(ledgerKey), dueMicros }))
  },
}

const argumentsOf = { add: 3, claim: 1, move: 4 } as const

function writeArguments(requests: RespWriter, call: LedgerIndexRun['call']): void {
  if (call.do === 'claim') return
  requests.text(call.ledgerKey)
  if (call.do === 'add') requests.integer(call.ttlMs * 1000)
  else {
    requests.integer(call.from)
    requests.integer(call.to ?? -1)
  }
}
