import type { App } from '../domain/app.ts'
import { isId } from '../domain/ids.ts'
import type { Merchant } from '../domain/merchant.ts'
import { isRefused, refuse, refuseField } from '../domain/refusals.ts'
import type { User } from '../domain/user.ts'
import { findApp } from '../storage/apps.ts'
import { insertMail } from '../storage/mails.ts'
import {
  addMerchantApp,
  addMerchantUser,
  findOrInsertUser,
  listMerchantApps,
  removeMerchantApp,
  removeMerchantUser,
} from '../storage/memberships.ts'
import { lockMerchant } from '../storage/merchants.ts'
import type { Tx } from '../storage/storage.ts'
import { ownMerchant, ownOpenMerchant } from './access.ts'
import { type Done, done, nextId, type Outcome, type Payments } from './operation.ts'

interface OfMerchant {
  readonly app: App
  readonly merchantId: string
}

/** The mail that an invited person gets; its content has the merchant's name and website. */
export const invitationTemplate = 'invitation'

/** Makes a person a member, with an e-mail to whoever was none before. */
export async function inviteUser(
  tx: Tx,
  payments: Payments,
  { app, merchantId, email }: OfMerchant & { readonly email: string },
): Outcome<User> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  return isRefused(merchant) ? merchant : addUser(tx, payments, merchant, email)
}

export async function addUser(tx: Tx, payments: Payments, merchant: Merchant, email: string): Promise<User> {
  const nowMs = payments.clock.nowMs()
  const { user } = await findOrInsertUser(tx, { id: nextId(payments), email, createdMs: nowMs })
  const isNewMember = await addMerchantUser(tx, merchant.id, user.id, nowMs)
  if (isNewMember) {
    const { id: merchantId, name, website, company } = merchant
    await insertMail(tx, {
      id: nextId(payments),
      createdMs: nowMs,
      template: invitationTemplate,
      recipient: email,
      content: { merchantId, merchantName: name, website, country: company.country, userId: user.id },
    })
  }
  return user
}

/** Ends a person's access. */
export async function removeUser(
  tx: Tx,
  { app, merchantId, userId }: OfMerchant & { readonly userId: string },
): Outcome<Done> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (isRefused(merchant)) return merchant
  const removed = isId(userId) && (await removeMerchantUser(tx, merchantId, userId))
  return removed ? done : refuse('not_found')
}

/** Gives another app complete access to the merchant. */
export async function associateApp(
  tx: Tx,
  { app, merchantId, appId }: OfMerchant & { readonly appId: string },
): Outcome<App> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (isRefused(merchant)) return merchant
  const found = await findApp(tx, appId)
  if (found === undefined) return refuseField('appId', 'mismatch', 'there is no such app')
  await addMerchantApp(tx, merchantId, appId)
  return found
}

/**
 * Ends an app's access, which may be the caller's own. The last app stays: without one, the merchant would be out of
 * reach.
 */
export async function dissociateApp(
  tx: Tx,
  { app, merchantId, appId }: OfMerchant & { readonly appId: string },
): Outcome<Done> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (isRefused(merchant)) return merchant
  if (!isId(appId)) return refuse('not_found')
  // Two apps that revoke each other at once wait for each other here.
  await lockMerchant(tx, merchantId)
  const apps = await listMerchantApps(tx, merchantId, { limit: 2 })
  if ('items' in apps && apps.items.length === 1 && apps.items[0]?.id === appId) {
    return refuse('conflict', 'The last app of a merchant cannot be revoked; add another one first.')
  }
  const removed = await removeMerchantApp(tx, merchantId, appId)
  return removed ? done : refuse('not_found')
}
