import { isObject } from '@tollway/chassis/is-object.ts'
import { derivedId } from '../../domain/ids.ts'
import {
  type Merchant,
  type MerchantInput,
  merchantFieldNames,
  mutableMerchantFields,
} from '../../domain/merchant.ts'
import {
  accept,
  done,
  type FieldError,
  type Rejected,
  type Result,
  reject,
  rejectField,
  rejectFields,
} from '../../domain/rejections.ts'
import {
  findWebhookEndpoint,
  insertWebhookEndpoint,
  listWebhookEndpoints,
  updateWebhookEndpoint,
} from '../../storage/delivery/webhooks.ts'
import type { Tx } from '../../storage/storage.ts'
import { expireAppKeys, findAppByKeyHash, insertApp } from '../../storage/tables/apps.ts'
import { addMerchantApp } from '../../storage/tables/memberships.ts'
import {
  findMerchantByProvisionUid,
  insertMerchant,
  lockMerchant,
  updateMerchant as saveMerchant,
} from '../../storage/tables/merchants.ts'
import { findMerchantOfApp } from '../../storage/tables/merchants-of-app.ts'
import {
  addAppKey,
  claimMerchant,
  isHandedOver,
  lockProvisioning,
} from '../../storage/tables/provisioning.ts'
import type { Payments } from '../operation.ts'
import { addUser } from './memberships.ts'
import { emitMerchantEvent, newMerchant, saveUpdate } from './merchants.ts'
import type { ProvisionInput, WebhookInput } from './provision-input.ts'

interface Provisioned {
  readonly merchantId: string
  readonly publicKey: string
  readonly appId: string
}

interface ProvisionRequest {
  /** The uid of the Kubernetes resource, which never identifies another merchant later. */
  readonly uid: string
  readonly input: ProvisionInput
}

/**
 * Creates or updates the merchant, the app and the webhooks of a resource. A repeated call changes nothing
 * and returns the same answer. The caller creates the API key, stores it, and passes only the hash, so that a
 * crash cannot lose the key.
 */
export async function provisionMerchant(
  tx: Tx,
  payments: Payments,
  { uid, input }: ProvisionRequest,
): Promise<Result<Provisioned>> {
  await lockProvisioning(tx, uid)
  const appId = deriveAppId(uid)
  const known = await findMerchantByProvisionUid(tx, uid)
  if (known === undefined && (await isHandedOver(tx, uid))) {
    return reject('merchant_closed', 'Another resource has taken over the merchant of this one.')
  }
  const found = known === undefined ? await adopt(tx, payments, { uid, input }) : accept(known)
  if (!found.ok) return found
  const provisioned =
    found.value === undefined
      ? await createProvisioned(tx, payments, { uid, input })
      : await updateProvisioned(tx, payments, found.value, input.merchant)
  if (!provisioned.ok) return provisioned
  const { value: merchant } = provisioned
  const rejected = await addKey(tx, payments, appId, input)
  if (rejected !== undefined) return rejected
  await addMerchantApp(tx, merchant.id, appId)
  for (const email of input.users) await addUser(tx, payments, merchant, email)
  await updateWebhooks(tx, payments, { uid, merchantId: merchant.id, wanted: input.webhooks })
  return accept({ merchantId: merchant.id, publicKey: merchant.key, appId })
}

/** Derives the id from the uid, so that each call gives the same id. */
function deriveAppId(uid: string): string {
  return derivedId('provisioned app', uid)
}

async function createProvisioned(
  tx: Tx,
  payments: Payments,
  { uid, input }: ProvisionRequest,
): Promise<Result<Merchant>> {
  const merchant = newMerchant(payments, input.merchant, 'merchant.')
  if (!merchant.ok) return merchant
  await insertApp(tx, { id: deriveAppId(uid), name: input.app.name, createdMs: merchant.value.createdMs })
  if (!(await insertMerchant(tx, merchant.value, uid)))
    throw new Error(`a merchant of ${uid} was inserted concurrently`)
  emitMerchantEvent(tx, payments, merchant.value, 'merchant.created')
  return accept(merchant.value)
}

/**
 * Assigns an existing merchant to the resource, and returns the merchant; undefined if the input names none.
 * The caller must prove the right with the hash of a key of an app that has access to the merchant. In this
 * way a merchant can continue with a new resource after the old resource or its cluster is gone.
 */
async function adopt(
  tx: Tx,
  { clock }: Payments,
  { uid, input: { adopt: adoption, app } }: ProvisionRequest,
): Promise<Result<Merchant | undefined>> {
  if (adoption === null) return accept(undefined)
  const { merchantId, keyHash } = adoption
  const nowMs = clock.nowMs()
  const owner = keyHash === null ? undefined : await findAppByKeyHash(tx, keyHash, nowMs)
  const merchant = owner && (await findMerchantOfApp(tx, merchantId, owner.id))
  if (merchant === undefined) {
    return rejectField(
      'adopt.merchantId',
      'mismatch',
      'not found, or the app of this key has no access to it',
    )
  }
  await claimMerchant(tx, { merchantId, uid, nowMs })
  await insertApp(tx, { id: deriveAppId(uid), name: app.name, createdMs: nowMs })
  return accept(merchant)
}

async function updateProvisioned(
  tx: Tx,
  payments: Payments,
  { id }: Merchant,
  input: MerchantInput,
): Promise<Result<Merchant>> {
  const merchant = await lockMerchant(tx, id)
  if (merchant === undefined || merchant.closedMs !== null) return reject('merchant_closed')
  const changed = immutableChanges(merchant, input)
  if (changed.length > 0) return rejectFields(changed)
  const update = mutableMerchantFields.map(field => [field, input[field]])
  return accept(await saveUpdate(tx, payments, merchant, Object.fromEntries(update)))
}

const mutable: ReadonlySet<string> = new Set(mutableMerchantFields)

/** Returns an error for each field that differs from the stored merchant and cannot change. */
function immutableChanges(merchant: Merchant, input: MerchantInput): readonly FieldError[] {
  const message = 'cannot change after the merchant was created'
  return merchantFieldNames
    .filter(name => !mutable.has(name))
    .flatMap(name => changedPaths(merchant[name], input[name], `merchant.${name}`))
    .map(field => ({ field, code: 'immutable', message }))
}

/** Compares null with an object as if null were an object without fields. */
function changedPaths(before: unknown, after: unknown, path: string): readonly string[] {
  if (before === after) return []
  if (!isObject(before) && !isObject(after)) return [path]
  const [old, next] = [before, after].map(value => (isObject(value) ? value : {}))
  return Object.keys({ ...old, ...next }).flatMap(name =>
    changedPaths(old?.[name] ?? null, next?.[name] ?? null, `${path}.${name}`),
  )
}

async function addKey(
  tx: Tx,
  { clock }: Payments,
  appId: string,
  { keyHash, otherKeysExpireInMs }: ProvisionInput,
): Promise<Rejected | undefined> {
  const nowMs = clock.nowMs()
  const key = await addAppKey(tx, { appId, hash: keyHash, nowMs })
  if (key.appId !== appId) return reject('conflict', 'The key belongs to another app.')
  if (key.expiresMs !== null && key.expiresMs <= nowMs) {
    return reject('conflict', 'The key has expired and cannot be renewed; create another one.')
  }
  if (otherKeysExpireInMs !== null) await expireAppKeys(tx, appId, nowMs + otherKeysExpireInMs, keyHash)
  return undefined
}

/** At most this many webhook endpoints of a merchant are checked, the newest first. */
const maxEndpoints = 1_000

interface Webhooks {
  readonly uid: string
  readonly merchantId: string
  readonly wanted: readonly WebhookInput[]
}

/**
 * Creates and updates the wanted endpoints, and disables other endpoints of the resource. The id of an
 * endpoint is derived from the resource's uid and the URL, so endpoints that were created through the API are
 * not touched.
 */
async function updateWebhooks(
  tx: Tx,
  { clock }: Payments,
  { uid, merchantId, wanted }: Webhooks,
): Promise<void> {
  const nowMs = clock.nowMs()
  const byId = new Map(wanted.map(webhook => [derivedId(`webhook of ${uid}`, webhook.url), webhook]))
  for (const [id, webhook] of byId) {
    const known = await findWebhookEndpoint(tx, id)
    const endpoint = { id, merchantId, createdMs: known?.createdMs ?? nowMs, ...webhook, disabledMs: null }
    await (known === undefined ? insertWebhookEndpoint(tx, endpoint) : updateWebhookEndpoint(tx, endpoint))
  }
  const page = await listWebhookEndpoints(tx, merchantId, { limit: maxEndpoints })
  for (const endpoint of 'items' in page ? page.items : []) {
    const isOurs = endpoint.id === derivedId(`webhook of ${uid}`, endpoint.url)
    if (!isOurs || byId.has(endpoint.id) || endpoint.disabledMs !== null) continue
    await updateWebhookEndpoint(tx, { ...endpoint, disabledMs: nowMs })
  }
}

/**
 * Closes the merchant of a deleted resource: the keys of the resource's app expire, and the merchant accepts
 * no more payments and captures. The records stay. A repeated call changes nothing.
 */
export async function closeProvisionedMerchant(
  tx: Tx,
  payments: Payments,
  uid: string,
): Promise<Result<void>> {
  await lockProvisioning(tx, uid)
  const found = await findMerchantByProvisionUid(tx, uid)
  const merchant = found && (await lockMerchant(tx, found.id))
  if (merchant === undefined) return reject('not_found')
  const nowMs = payments.clock.nowMs()
  await expireAppKeys(tx, deriveAppId(uid), nowMs)
  if (merchant.closedMs === null) {
    const closed = { ...merchant, closedMs: nowMs }
    await saveMerchant(tx, closed)
    emitMerchantEvent(tx, payments, closed, 'merchant.closed')
  }
  return done
}
