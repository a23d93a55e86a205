import type { Clock } from '@tollway/chassis/clock.ts'

export interface MerchantBooks {
  /** The balances, by the uids of the resources. Resources without a merchant are missing. */
  readonly balances: ReadonlyMap<string, MerchantBalances>
  /** undefined if no verification has ended. */
  readonly lastVerify: BooksVerification | undefined
}

export interface MerchantBalances {
  /** The amount of the next payout, in the merchant's currency. Negative if the merchant owes money. */
  readonly available: MoneyAmount
  /** Amounts that are authorised and neither captured nor voided, one for each currency. */
  readonly pending: readonly MoneyAmount[]
}

/** A sum of money. It may exceed the integers that a number represents exactly. */
export interface MoneyAmount {
  readonly currency: string
  /** Minor units in decimal digits: `49165`, `-5`. */
  readonly amount: string
  /** The number of decimal digits of the minor unit: 2 for DKK. */
  readonly exponent: number
}

/** The result of a run of `tollway payments verify`. */
export interface BooksVerification {
  readonly beganMs: number
  readonly endedMs: number
  /** The number of records that were replayed, by kind. */
  readonly records: Readonly<Record<string, number>>
  /** The number of inconsistencies; 0 if the books are correct. */
  readonly findings: number
  readonly shown: readonly {
    /** The uid of the merchant's resource; undefined if it has none. */
    readonly uid: string | undefined
    readonly record: string
    readonly message: string
  }[]
}

export interface BookReader {
  /**
   * Reads the books of the merchants of at most `maxBooks` resources. Rejects without an answer, and for an
   * answer of an unexpected form.
   */
  readBooks(uids: readonly string[]): Promise<MerchantBooks>
}

/** The highest number of resources in one request. */
const maxBooks = 100

/** For this time equal requests get the same answer, because many consoles ask for the same page. */
const keepMs = 5_000
const maxKept = 20

/** Reads the books of any number of resources. Equal requests share an answer or an error for `keepMs`. */
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

/**
 * Reads the books in requests of `maxBooks` resources; even without resources sends one, for `lastVerify`.
 * The last answer's `lastVerify` counts.
 */
async function readParts(reader: BookReader, uids: readonly string[]): Promise<MerchantBooks> {
  let books: MerchantBooks = { balances: new Map(), lastVerify: undefined }
  for (let from = 0; from === 0 || from < uids.length; from += maxBooks) {
    const { balances, lastVerify } = await reader.readBooks(uids.slice(from, from + maxBooks))
    books = { balances: new Map([...books.balances, ...balances]), lastVerify }
  }
  return books
}
