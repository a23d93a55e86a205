import { type MerchantSpec, merchantKind } from '../merchant.ts'
import { wholeResource } from '../resource-kind.ts'
import { type Validated, validateValue } from './validate.ts'

const schema = wholeResource(merchantKind)

/**
 * Validates a whole Merchant (apiVersion, kind, metadata, spec) as an API server with Tollway's definition
 * does at its creation: immutable fields are not compared. Returns the spec with its defaults filled in, or
 * all problems.
 */
export function validateMerchant(resource: unknown): Validated<MerchantSpec> {
  const judged = validateValue(schema, resource)
  if ('problems' in judged) return judged
  return { value: (judged.value as { readonly spec: MerchantSpec }).spec }
}
