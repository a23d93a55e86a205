import { type MerchantSpec, merchantKind } from '@tollway/crds/merchant.ts'
import { validateResource } from '@tollway/crds/validate.ts'
import { parseMember, parseMerchant } from '@tollway/payments/domain/input/request-bodies.ts'
import { merchantFieldNames } from '@tollway/payments/domain/merchant.ts'
import { currencyCodes } from '@tollway/payments/domain/money/money.ts'
import type { FieldError } from '@tollway/payments/domain/rejections.ts'
import type { MerchantAccount } from '../../model.ts'
import type { ResourceProblem, Translation } from '../kind-adapter.ts'

/**
 * Translates a Merchant to an account. Validates with the functions of the payments service. Only the service
 * itself can validate the currencies of payouts, and fields that must not change.
 */
export function translateMerchant(name: string, resource: unknown): Translation<MerchantAccount> {
  const checked = validateResource<MerchantSpec>(merchantKind, resource)
  if ('problems' in checked) return { problems: checked.problems }
  const spec = checked.value
  const input = Object.fromEntries(merchantFieldNames.map(field => [field, spec[field]]))
  const profile = parseMerchant(input, 'json', currencyCodes)
  const problems = [...(profile.ok ? [] : toProblems(profile.rejection.fields)), ...validateUsers(spec)]
  if (!profile.ok || problems.length > 0) return { problems }
  return {
    value: { name, profile: profile.value, ...toAccountFields(name, spec) },
    warnings: findWarnings(spec),
  }
}

function toAccountFields(name: string, spec: MerchantSpec): Omit<MerchantAccount, 'name' | 'profile'> {
  const { app, secretRef, users, webhooks, deletionPolicy, adopt } = spec
  const ownName = name.slice(name.indexOf('/') + 1)
  return {
    app: {
      name: app.name ?? null,
      rotateAfterMs: app.rotateAfter === undefined ? undefined : toMs(app.rotateAfter),
      keyGraceMs: toMs(app.keyGrace),
    },
    secret: { name: secretRef.name ?? ownName, entries: secretRef.keys },
    users,
    webhooks: webhooks.map(({ url, events, secretRef }) => ({ url, events, secret: secretRef })),
    onDeletion: deletionPolicy === 'Delete' ? 'close' : 'retain',
    ...(adopt && { adopt: { merchantId: adopt.merchantId, apiKey: adopt.apiKeySecretRef } }),
  }
}

function validateUsers({ users }: MerchantSpec): readonly ResourceProblem[] {
  return users.flatMap((email, index) => {
    const parsed = parseMember({ email }, 'json')
    if (parsed.ok) return []
    return parsed.rejection.fields.map(({ message }) => ({ path: `spec.users[${index}]`, message }))
  })
}

/** Turns problems of payments fields into problems of the resource, whose spec has the same field names. */
function toProblems(fields: readonly FieldError[]): readonly ResourceProblem[] {
  return fields.map(({ field, message }) => ({ path: `spec.${field}`, message }))
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Returns the milliseconds of a duration such as `90d`, whose form the schema has validated. */
function toMs(duration: string): number {
  return Number(duration.slice(0, -1)) * (unitMs[duration.slice(-1)] ?? 0)
}

function findWarnings({ app }: MerchantSpec): readonly ResourceProblem[] {
  if (app.rotateAfter === undefined || toMs(app.rotateAfter) > toMs(app.keyGrace)) return []
  const message = `the key before is still valid when the next one comes, after ${app.rotateAfter}`
  return [{ path: 'spec.app.keyGrace', message }]
}
