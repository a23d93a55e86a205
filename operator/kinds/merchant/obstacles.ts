import { findWebhookSecretProblem, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import type { SecretEntry } from '../../model.ts'
import { formatProblem } from '../kind-adapter.ts'
import { SecretForbiddenError } from '../source.ts'
import type { CredentialReference } from './credential-store.ts'
import { immutableFieldChanged, type MerchantObstacle } from './merchant-conditions.ts'
import type { MerchantResource } from './merchant-resources.ts'
import type { ProvisionRejection } from './provisioner.ts'

/** Thrown to end a reconcile with the obstacle as its outcome. */
export class ObstacleError extends Error {
  override readonly name = 'ObstacleError'
  readonly obstacle: MerchantObstacle

  constructor(obstacle: MerchantObstacle) {
    super(obstacle.message)
    this.obstacle = obstacle
  }
}

type PassingReason = 'SecretUnknown' | 'SecretNotWritten' | 'PaymentsUnreachable'

const stepOf: Readonly<Record<PassingReason, MerchantObstacle['step']>> = {
  SecretUnknown: 'CredentialsReady',
  SecretNotWritten: 'CredentialsReady',
  PaymentsUnreachable: 'Synced',
}

/**
 * Runs a step, and turns its errors into obstacles. A missing right stalls until an administrator grants it;
 * any other error counts as transient, with the given reason.
 */
export async function attempt<Result>(reason: PassingReason, step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof ObstacleError) throw error
    const { message } = error as Error
    const step = stepOf[reason]
    if (error instanceof SecretForbiddenError) {
      const whole = `${message}. ${error.advice}`
      throw new ObstacleError({ step, reason: 'SecretForbidden', message: whole, stalled: true })
    }
    throw new ObstacleError({ step, reason, message, stalled: false })
  }
}

export const noPayments: MerchantObstacle = {
  step: 'Synced',
  reason: 'PaymentsDisabled',
  message:
    'no payments service runs here; enable it in the configuration of the operator, or delete the resource',
  stalled: true,
}

/** The obstacle of a deletion where no payments service runs, so that the merchant cannot be closed. */
export const merchantLeftOpen: MerchantObstacle = {
  step: 'Synced',
  reason: 'NotClosed',
  message: 'no payments service runs here: the resource goes, and a merchant that it had stays open',
  stalled: false,
}

/**
 * The obstacle of a deletion that waits until the merchant is closed. Advises to change the resource, unless
 * its manifest is gone.
 */
export function notClosed(
  { message }: Error,
  { manifest }: Pick<MerchantResource, 'manifest'>,
): MerchantObstacle {
  const advice =
    manifest === undefined
      ? ''
      : '. The resource stays until its merchant is closed; to delete it without that, set spec.deletionPolicy to Retain'
  return { step: 'Synced', reason: 'NotClosed', message: `${message}${advice}`, stalled: false }
}

export function foreignSecret({ namespace, name }: CredentialReference): MerchantObstacle {
  const advice = 'delete it, or name another one in a new Merchant'
  const message = `the Secret ${namespace}/${name} exists and does not belong to this Merchant; ${advice}`
  return { step: 'CredentialsReady', reason: 'SecretForeign', message, stalled: true }
}

export function missingSecret(namespace: string, { name, key }: SecretEntry): MerchantObstacle {
  const message = `the Secret ${namespace}/${name} does not exist, or its entry ${key} is empty`
  return { step: 'Synced', reason: 'SecretMissing', message, stalled: true }
}

/** An entry has a signing secret and, during a rotation, its predecessor. */
const maxSecrets = 2

/** Returns the problems of the lines of an entry, with line numbers. Never quotes a character of a secret. */
export function findSecretFaults(lines: readonly string[]): readonly string[] {
  if (lines.length > maxSecrets) return [`has ${lines.length} lines; 1 or ${maxSecrets} are allowed`]
  return lines.flatMap((line, index) => {
    const fault = findWebhookSecretProblem(line)
    return fault === undefined ? [] : [`line ${index + 1} ${fault}; allowed is ${webhookSecretForm}`]
  })
}

export function invalidSecret(
  path: string,
  { name, key }: SecretEntry,
  faults: readonly string[],
): MerchantObstacle {
  const message = `${path}: the entry ${key} of the Secret ${name}: ${faults.join('; ')}`
  return { step: 'Synced', reason: 'SecretInvalid', message, stalled: true }
}

const reasons = { closed: 'MerchantClosed', key: 'KeyRefused', invalid: 'Refused' } as const

export function toObstacle({ rejected: { why, problems, message } }: ProvisionRejection): MerchantObstacle {
  const said = problems.length > 0 ? problems.map(formatProblem).join('; ') : message
  if (why === 'immutable') {
    const advice = 'the merchant is unchanged; change the field back, or create another Merchant'
    return { step: 'Synced', reason: immutableFieldChanged, message: `${said}; ${advice}`, stalled: true }
  }
  return { step: 'Synced', reason: reasons[why], message: said, stalled: why !== 'key' }
}
