import type { BookFinding } from '../domain/ledger/verify.ts'
import type { Balances, Merchant } from '../domain/merchant.ts'
import { findLastVerification, type StoredVerification } from '../storage/last-verification.ts'
import type { Storage } from '../storage/storage.ts'
import { balancesOfMerchants } from '../storage/tables/ledger.ts'
import { findMerchantsByProvisionUids, findProvisionUids } from '../storage/tables/merchants.ts'

export interface BooksReport {
  /** The merchants by the uid of the resource. Resources without a merchant are missing. */
  readonly merchants: ReadonlyMap<string, BookOfMerchant>
  /** Undefined if no verification has ended yet. */
  readonly verification: LastVerification | undefined
}

interface BookOfMerchant extends Balances {
  readonly merchantId: string
}

export interface LastVerification extends Omit<StoredVerification, 'shown'> {
  readonly shown: readonly FindingOfResource[]
}

interface FindingOfResource extends BookFinding {
  /** The uid of the merchant's resource; null if the merchant has none. */
  readonly uid: string | null
}

export function readBooks(storage: Storage, uids: readonly string[]): Promise<BooksReport> {
  return storage.read(async tx => {
    const merchants = await findMerchantsByProvisionUids(tx, uids)
    const balances = await balancesOfMerchants(tx, [...merchants.values()])
    const stored = await findLastVerification(tx)
    const ids = (stored?.shown ?? []).flatMap(({ merchantId }) => merchantId ?? [])
    const uidOf = ids.length === 0 ? new Map<string, string>() : await findProvisionUids(tx, ids)
    const withUid = (finding: BookFinding) => ({
      ...finding,
      uid: finding.merchantId === null ? null : (uidOf.get(finding.merchantId) ?? null),
    })
    return {
      merchants: new Map([...merchants].flatMap(([uid, merchant]) => findBook(uid, merchant, balances))),
      verification: stored && { ...stored, shown: stored.shown.map(withUid) },
    }
  })
}

function findBook(uid: string, { id }: Merchant, balances: ReadonlyMap<string, Balances>) {
  const found = balances.get(id)
  return found === undefined ? [] : [[uid, { merchantId: id, ...found }] as const]
}
