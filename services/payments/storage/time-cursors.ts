import { type Tx, toDate } from './storage.ts'

/** A list whose cursors can be times. */
interface TimedList {
  readonly from: string
  readonly owner: string
  readonly id: string
  readonly position: string
  readonly created: string
  /** Whether an index has the owner's elements in the order of their creation. */
  readonly hasTimeIndex?: boolean
}

const ofMerchant = (table: string) => ({
  from: table,
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  created: 'created',
})

const memberships = (table: string, column: string, owner: string, position: string): TimedList => ({
  from: `${table} m JOIN identities ON identities.id = m.${column}`,
  owner,
  id: `m.${column}`,
  position,
  created: 'identities.created',
})

export const timedLists = {
  transactions: { ...ofMerchant('transactions'), hasTimeIndex: true },
  lines: { ...ofMerchant('lines'), hasTimeIndex: true },
  frauds: { ...ofMerchant('frauds'), hasTimeIndex: true },
  disputes: { ...ofMerchant('disputes'), hasTimeIndex: true },
  webhooks: ofMerchant('webhook_endpoints'),
  events: { ...ofMerchant('webhook_events'), hasTimeIndex: true },
  trail: { ...ofMerchant('trail_entries'), owner: 'transaction_id', position: 'number' },
  apps: memberships('merchant_apps', 'app_id', 'm.merchant_id', 'm.position'),
  users: {
    from: 'merchant_users m',
    owner: 'm.merchant_id',
    id: 'coalesce(m.member_id, m.user_id)',
    position: 'm.position',
    created: 'm.invited',
  },
  merchants: {
    from: 'merchant_apps m JOIN merchants ON merchants.id = m.merchant_id',
    owner: 'm.app_id',
    id: 'm.merchant_id',
    position: 'm.identity_position',
    created: 'merchants.created',
  },
} as const satisfies Readonly<Record<string, TimedList>>

/** Returns the id of the newest element that is not newer than the time, for the cursor `after`. */
export function lastUntil(tx: Tx, list: TimedList, owner: string, timeMs: number): Promise<string | null> {
  return find(tx, list, { owner, condition: `${list.created} <= $2`, order: 'DESC', timeMs })
}

/** Returns the id of the oldest element that is not older than the time, for the cursor `before`. */
export function firstFrom(tx: Tx, list: TimedList, owner: string, timeMs: number): Promise<string | null> {
  return find(tx, list, { owner, condition: `${list.created} >= $2`, order: 'ASC', timeMs })
}

interface TimeSearch {
  readonly owner: string
  readonly condition: string
  readonly order: 'ASC' | 'DESC'
  readonly timeMs: number
}

/**
 * Orders by time if there is an index: in the order of positions, a list of 1,000,000 elements is read for
 * up to 0.5 s until one matches. Positions order elements of the same millisecond.
 */
async function find(tx: Tx, list: TimedList, look: TimeSearch): Promise<string | null> {
  const { owner, condition, order, timeMs } = look
  const columns = list.hasTimeIndex === true ? [list.created, list.position] : [list.position]
  const rows = await tx.query<{ id: string }>(
    `SELECT ${list.id} AS id FROM ${list.from} WHERE ${list.owner} = $1 AND ${condition}
     ORDER BY ${columns.map(column => `${column} ${order}`).join(', ')} LIMIT 1`,
    [owner, toDate(timeMs)],
  )
  return rows[0]?.id ?? null
}
