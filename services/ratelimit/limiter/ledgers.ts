import type { LimitCheck } from '../counters/admission/limit-check.ts'
import { findHashTag } from '../counters/redis/cluster/hash-slot.ts'
import { hashText } from './admission.ts'

interface LedgerNames {
  /** The key of the ledger in the backend. Its hash tag puts it into the slot of the limits. */
  readonly key: string
  /** `tag.hash`, the beginning of the ids of its reservations. */
  readonly name: string
}

/** Names the ledger with the reservations of these limits, which are those of one descriptor. */
export function nameLedger(cacheKeyPrefix: string, checks: readonly LimitCheck[]): LedgerNames {
  const keys = checks.map(({ key }) => key)
  const tag = findHashTag(keys[0] ?? '')
  const hash = hashText(keys.join('\n'))
  return { key: joinKey(cacheKeyPrefix, tag, hash), name: `${tag}.${hash}` }
}

/** Names what is stored about a request, so that it gets one reservation although its windows end meanwhile. */
export function nameRequest(cacheKeyPrefix: string, request: readonly unknown[]): string {
  return `${cacheKeyPrefix}{${hashText(JSON.stringify(request))}}:reservations:request`
}

/** Returns the id that Reserve returns for an entry of a ledger. */
export function toReservationId({ name }: Pick<LedgerNames, 'name'>, entry: string): string {
  return `${name}.${entry}`
}

/** Returns the key of the ledger with this name. */
export function toLedgerKey(cacheKeyPrefix: string, name: string): string {
  const dot = name.indexOf('.')
  return joinKey(cacheKeyPrefix, name.slice(0, dot), name.slice(dot + 1))
}

/** The name of the ledger, and the entry. */
const idForm = /^([0-9a-z]{1,4}\.[\w-]{22})\.([\w-]{22})$/

/** Returns the ledger and the entry of an id; undefined if it is no id. */
export function parseReservationId(
  cacheKeyPrefix: string,
  id: string,
): { readonly ledgerKey: string; readonly entry: string } | undefined {
  const [, name = '', entry] = idForm.exec(id) ?? []
  return entry === undefined ? undefined : { ledgerKey: toLedgerKey(cacheKeyPrefix, name), entry }
}

function joinKey(cacheKeyPrefix: string, tag: string, hash: string): string {
  return `${cacheKeyPrefix}{${tag}}:reservations:${hash}`
}
