import type { Clock } from '@tollway/chassis/clock.ts'

/** The balances of the merchants of resources, and the result of the last proof of the books. */
export interface MerchantBooks {
  /** The balances by the uids of the resources. A resource without a merchant is left out. */
  readonly balances: ReadonlyMap<string, MerchantBalances>
  /** Undefined if no proof has ended. */
  readonly lastVerify: BooksVerification | undefined
}

export interface MerchantBalances {
  /** The funds of the next payout, in the currency of the merchant. Negative if the merchant owes money. */
  readonly available: MoneyAmount
  /** Authorised and neither captured nor voided, by currency. */
  readonly pending: readonly MoneyAmount[]
}

/** A sum of money. It may exceed the integers that a number represents exactly. */
export interface MoneyAmount {
  readonly currency: string
  /** Minor units in decimal digits, such as `49165` or `-5`. */
  readonly amount: string
  /** The digits of the minor unit: 2 for DKK. */
  readonly exponent: number
}

/** The result of the last `tollway payments verify`. */
export interface BooksVerification {
  readonly beganMs: number
  readonly endedMs: number
  /** The number of replayed records of each kind. */
  readonly records: Readonly<Record<string, number>>
  /** The number of inconsistencies; 0 if the books are right. */
  readonly findings: number
  /** The first inconsistencies. */
  readonly shown: readonly {
    /** The uid of the resource of the merchant; undefined if there is none. */
    readonly uid: string | undefined
    readonly record: string
    readonly message: string
  }[]
}

/** Reads the books at the payments service. */
export interface BookReader {
  /**
   * Reads the books of the merchants of these resources, at most `maxBooks`. Rejects without an answer, and
   * for an answer that does not fit.
   */
  readBooks(uids: readonly string[]): Promise<MerchantBooks>
}

/** The most resources of one request. */
const maxBooks = 100

/** The time for which an answer is given again: many consoles ask for the same page. */
const keepMs = 5_000
const maxKept = 20

/** Reads the books of any number of resources. Equal requests share an answer or an error for 5 s. */
export type ReadMerchantBooks = (uids: readonly string[]) => Promise<MerchantBooks>

/** @param reader undefined if no payments service runs */
export function cacheBalances(
  reader: BookReader | undefined,
  { monotonicMs }: Pick<Clock, 'monotonicMs'>,
): ReadMerchantBooks {
  const kept = new Map<string, { readonly untilMs: number; readonly books: Promise<MerchantBooks> }>()

  return uids => {
    if (reader === undefined) return Promise.reject(new Error('no payments service runs'))
    const nowMs = monotonicMs()
    for (const [key, { untilMs }] of kept) if (untilMs <= nowMs) kept.delete(key)
    const key = JSON.stringify(uids)
    const known = kept.get(key)
    if (known !== undefined) return known.books
    const books = readParts(reader, uids)
    const [oldest] = kept.keys()
    if (kept.size >= maxKept && oldest !== undefined) kept.delete(oldest)
    kept.set(key, { untilMs: nowMs + keepMs, books })
    return books
  }
}

/** The last proof is that of the last part, which is read even without resources. */
async function readParts(reader: BookReader, uids: readonly string[]): Promise<MerchantBooks> {
  let books: MerchantBooks = { balances: new Map(), lastVerify: undefined }
  for (let from = 0; from === 0 || from < uids.length; from += maxBooks) {
    const { balances, lastVerify } = await reader.readBooks(uids.slice(from, from + maxBooks))
    books = { balances: new Map([...books.balances, ...balances]), lastVerify }
  }
  return books
}
