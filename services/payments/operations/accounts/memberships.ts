import { isId } from '../../domain/ids.ts'
import type { App, Merchant, User } from '../../domain/merchant.ts'
import { accept, done, type Result, reject, rejectField, rejectFor } from '../../domain/rejections.ts'
import { countInvitation, insertMail } from '../../storage/delivery/mails.ts'
import type { Tx } from '../../storage/storage.ts'
import { findApp } from '../../storage/tables/apps.ts'
import {
  addMerchantApp,
  addMerchantUser,
  findOrInsertUser,
  listMerchantApps,
  removeMerchantApp,
  removeMerchantUser,
} from '../../storage/tables/memberships.ts'
import { lockMerchant } from '../../storage/tables/merchants.ts'
import { generateId, type Payments } from '../operation.ts'
import { ownMerchant, ownOpenMerchant } from './access.ts'

interface OfMerchant {
  readonly app: App
  readonly merchantId: string
}

const invitationTemplate = 'invitation'

/**
 * Makes a person a member of the merchant, and enqueues an invitation by e-mail if the person is a new
 * member. The answer reveals neither other memberships of the person nor whether an e-mail is sent.
 */
export async function inviteUser(
  tx: Tx,
  payments: Payments,
  { app, merchantId, email }: OfMerchant & { readonly email: string },
): Promise<Result<User>> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  const { member, isNew } = await addMember(tx, payments, merchant.value, email)
  if (!isNew) return accept(member)
  const { perApp, perMerchant } = payments.invitationLimits
  const nowMs = payments.clock.nowMs()
  const waitMs =
    (await countInvitation(tx, { app: app.id }, { limit: perApp, nowMs })) ||
    (await countInvitation(tx, { merchant: merchantId }, { limit: perMerchant, nowMs }))
  if (waitMs > 0) return rejectFor(waitMs, 'Too many people were invited today.')
  await sendInvitation(tx, payments, merchant.value, email)
  return accept(member)
}

/** Adds a member for provisioning, as `inviteUser` does, but without the limits for each app and merchant. */
export async function addUser(tx: Tx, payments: Payments, merchant: Merchant, email: string): Promise<void> {
  const { isNew } = await addMember(tx, payments, merchant, email)
  if (isNew) await sendInvitation(tx, payments, merchant, email)
}

async function addMember(tx: Tx, payments: Payments, merchant: Merchant, email: string) {
  const createdMs = payments.clock.nowMs()
  const { user } = await findOrInsertUser(tx, { id: generateId(payments), email, createdMs })
  return addMerchantUser(tx, merchant.id, user.id, { id: generateId(payments), email, createdMs })
}

async function sendInvitation(tx: Tx, payments: Payments, merchant: Merchant, email: string): Promise<void> {
  const nowMs = payments.clock.nowMs()
  const limit = payments.invitationLimits.perRecipient
  if ((await countInvitation(tx, { recipient: email }, { limit, nowMs })) > 0) return
  const { id: merchantId, name, website, company } = merchant
  await insertMail(tx, {
    id: generateId(payments),
    createdMs: nowMs,
    template: invitationTemplate,
    recipient: email,
    // `website` is only for pods of the previous version, which need it.
    content: { merchantId, merchantName: name, website, country: company.country },
  })
}

export async function removeUser(
  tx: Tx,
  { app, merchantId, userId }: OfMerchant & { readonly userId: string },
): Promise<Result<void>> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  const removed = isId(userId) && (await removeMerchantUser(tx, merchantId, userId))
  return removed ? done : reject('not_found')
}

/** Gives another app full access to the merchant. Changes nothing if the app has access already. */
export async function associateApp(
  tx: Tx,
  { app, merchantId, appId }: OfMerchant & { readonly appId: string },
): Promise<Result<App>> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  const found = await findApp(tx, appId)
  if (found === undefined) return rejectField('appId', 'mismatch', 'not found')
  await addMerchantApp(tx, merchantId, appId)
  return accept(found)
}

/** Rejects the removal of the last app, because nobody could reach the merchant afterwards. */
export async function dissociateApp(
  tx: Tx,
  { app, merchantId, appId }: OfMerchant & { readonly appId: string },
): Promise<Result<void>> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  if (!isId(appId)) return reject('not_found')
  // Without this lock, two apps could remove each other at the same time.
  await lockMerchant(tx, merchantId)
  const apps = await listMerchantApps(tx, merchantId, { limit: 2 })
  if ('items' in apps && apps.items.length === 1 && apps.items[0]?.id === appId) {
    return reject('conflict', 'The last app of a merchant cannot be revoked; add another one first.')
  }
  const removed = await removeMerchantApp(tx, merchantId, appId)
  return removed ? done : reject('not_found')
}
