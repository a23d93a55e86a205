import type { JsonObject } from '../../domain/json.ts'
import { exponentOf } from '../../domain/money/currencies.ts'
import type { Money } from '../../domain/money/money.ts'
import type { Books, LastVerification } from '../../operations/read-books.ts'

/**
 * Presents the answer of POST /provision/books. Amounts are texts of minor units, since the sum of many
 * payments can exceed what a JSON number represents exactly; `exponent` has the digits of the minor unit.
 */
export function presentBooks({ merchants, verification }: Books): JsonObject {
  const shown = [...merchants].map(([uid, { merchantId, available, pending }]) => {
    return [uid, { merchantId, available: presentSum(available), pending: pending.map(presentSum) }] as const
  })
  return {
    merchants: Object.fromEntries(shown),
    verification: verification === undefined ? null : presentVerification(verification),
  }
}

function presentSum({ currency, amount }: Money): JsonObject {
  return { currency, amount: String(amount), exponent: exponentOf(currency) }
}

function presentVerification({ records, findings, shown, ...times }: LastVerification): JsonObject {
  return {
    began: new Date(times.beganMs).toISOString(),
    ended: new Date(times.endedMs).toISOString(),
    records,
    findings,
    shown: shown.map(({ uid, merchantId, record, message }) => ({ uid, merchantId, record, message })),
  }
}
