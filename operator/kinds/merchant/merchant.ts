import { merchantKind as definition } from '@tollway/crds/merchant.ts'
import type { ResourceKind } from '@tollway/crds/resource-kind.ts'
import type { MerchantAccount } from '../../model.ts'
import type { KindColumns } from '../kind-adapter.ts'
import type { PaymentAddresses } from './merchant-reconciler.ts'
import type { Provisioned } from './provisioner.ts'

const merchantColumns: KindColumns = {
  subject: 'CURRENCY',
  counts: [],
  details: [{ field: 'merchantId', heading: 'MERCHANT' }],
  steps: [
    { field: 'Accepted', heading: 'ACCEPTED' },
    { field: 'Synced', heading: 'SYNCED' },
    { field: 'CredentialsReady', heading: 'CREDENTIALS' },
  ],
}

export const merchantsKind: KindColumns & { readonly definition: ResourceKind } = {
  definition,
  ...merchantColumns,
}

const maxShownCharacters = 3

/**
 * Returns the `ResourceStatus.subject`: `DKK`, or `DKK test` for a test merchant. The spec may be invalid.
 */
export function merchantSubject(spec: unknown): string {
  const { currency, test } = (spec ?? {}) as { readonly currency?: unknown; readonly test?: unknown }
  const shown = typeof currency === 'string' ? currency.slice(0, maxShownCharacters) : ''
  return test === false ? shown : `${shown} test`.trim()
}

const detailNames = ['merchantId', 'publicKey', 'appId', 'payLink', 'posLink', 'secretName'] as const

/** The details in the status of a Merchant. They never contain the API key. */
export type MerchantDetails = Readonly<Partial<Record<(typeof detailNames)[number], string>>>

/**
 * @param account undefined if the resource is invalid; the result is then `before`
 * @param before the details of the last status
 */
export function makeDetails(
  account: MerchantAccount | undefined,
  ids: Provisioned | undefined,
  { payPageUrl }: PaymentAddresses,
  before: MerchantDetails,
): MerchantDetails {
  if (account === undefined) return before
  const { name } = account.secret
  if (ids === undefined) return { ...before, secretName: name }
  const query = new URLSearchParams({ key: ids.publicKey, currency: account.profile.currency })
  const posLink = `${payPageUrl.replace(/\/$/, '')}/?${query}`
  return { ...ids, payLink: `${posLink}&amount=`, posLink, secretName: name }
}

/** Returns the details in a stored status, which an operator of another version may have written. */
export function readDetails(
  status: Readonly<Record<string, unknown>>,
): MerchantDetails & Readonly<Record<string, string>> {
  const found = detailNames.flatMap(name => {
    const value = status[name]
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  return Object.fromEntries(found)
}
