import { type MerchantSpec, merchantKind } from './merchant.ts'
import { wholeResource } from './resource-kind.ts'
import { type Validated, validate } from './validate.ts'

const schema = wholeResource(merchantKind)

/**
 * Judges a whole Merchant (apiVersion, kind, metadata, spec) as an API server with our definition would that has
 * none of that name yet, and answers with its spec, defaults filled in, or with every problem that it has.
 */
export function validateMerchant(resource: unknown): Validated<MerchantSpec> {
  const judged = validate(schema, resource)
  if ('problems' in judged) return judged
  return { value: (judged.value as { readonly spec: MerchantSpec }).spec }
}
