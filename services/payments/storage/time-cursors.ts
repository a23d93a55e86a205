import { type Tx, toDate } from './storage.ts'

/** A list whose cursors can be times: the FROM clause and the names of the columns. */
interface TimedList {
  readonly from: string
  readonly owner: string
  readonly id: string
  readonly position: string
  readonly created: string
  /** Whether an index has the elements of an owner in the order of creation. */
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

/** Returns the newest element created at `timeMs` or before, as the cursor `after`; null for none. */
export function lastUntil(tx: Tx, list: TimedList, owner: string, timeMs: number): Promise<string | null> {
  return find(tx, list, { owner, condition: `${list.created} <= $2`, order: 'DESC', timeMs })
}

/** Returns the oldest element created at `timeMs` or later, as the cursor `before`; null for none. */
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
 * Returns the first element that meets the condition. Orders by time if an index serves that; without it,
 * reading a list of 1,000,000 elements takes up to 0.5 s. Elements of the same millisecond are ordered by
 * position.
 */
async function find(tx: Tx, list: TimedList, search: TimeSearch): Promise<string | null> {
  const { owner, condition, order, timeMs } = search
  const columns = list.hasTimeIndex === true ? [list.created, list.position] : [list.position]
  const rows = await tx.query<{ id: string }>(
    `SELECT ${list.id} AS id FROM ${list.from} WHERE ${list.owner} = $1 AND ${condition}
     ORDER BY ${columns.map(column => `${column} ${order}`).join(', ')} LIMIT 1`,
    [owner, toDate(timeMs)],
  )
  return rows[0]?.id ?? null
}
