import { type MerchantSpec, merchantKind } from '../merchant.ts'
import { wholeResource } from '../resource-kind.ts'
import { type Validated, validateValue } from './validate.ts'

const schema = wholeResource(merchantKind)

/**
 * Validates a whole Merchant (apiVersion, kind, metadata, spec) as an API server with our definition does
 * when no Merchant of this name exists. Returns its spec with the defaults filled in, or all its problems.
 */
export function validateMerchant(resource: unknown): Validated<MerchantSpec> {
  const judged = validateValue(schema, resource)
  if ('problems' in judged) return judged
  return { value: (judged.value as { readonly spec: MerchantSpec }).spec }
}
