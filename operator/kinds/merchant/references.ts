import { hashApiKey } from '@tollway/payments/domain/ids.ts'
import type { MerchantAccount, SecretEntry } from '../../translated-types.ts'
import { attempt, invalidSecret, missingSecret, ObstacleError, secretFaults } from './obstacles.ts'
import type { ProvisionRequest } from './provisioner.ts'

/** The parts of a request whose values are in Secrets that the resource names. */
export type References = Pick<ProvisionRequest, 'webhooks' | 'adopt'>

/** Resolves with the entries of a Secret; undefined if it does not exist. Rejects when that is not known. */
export type ReadSecret = (
  namespace: string,
  name: string,
  signal: AbortSignal,
) => Promise<Readonly<Record<string, string>> | undefined>

/** Reads the values that an account takes from Secrets of its namespace. */
export async function readReferences(
  readSecret: ReadSecret,
  namespace: string,
  { webhooks, adopt }: Pick<MerchantAccount, 'webhooks' | 'adopt'>,
  signal: AbortSignal,
): Promise<References> {
  const read = new Map<string, ReturnType<ReadSecret>>()
  const textIn = async ({ name, key }: SecretEntry) => {
    const reading = read.get(name) ?? readSecret(namespace, name, signal)
    read.set(name, reading)
    const entries = await attempt('SecretUnknown', () => reading)
    return entries !== undefined && Object.hasOwn(entries, key) ? entries[key]?.trim() : undefined
  }
  const found: ProvisionRequest['webhooks'][number][] = []
  for (const [index, { url, events, secret }] of webhooks.entries()) {
    const lines = (await textIn(secret))?.split('\n').map(line => line.trim()) ?? []
    const secrets = lines.filter(line => line !== '')
    if (secrets.length === 0) throw new ObstacleError(missingSecret(namespace, secret))
    const faults = secretFaults(secrets)
    if (faults.length > 0)
      throw new ObstacleError(invalidSecret(`spec.webhooks[${index}].secretRef`, secret, faults))
    found.push({ url, events, secrets })
  }
  if (adopt === undefined) return { webhooks: found }
  const key = await textIn(adopt.apiKey)
  const keyHash = key === undefined ? null : hashApiKey(key)
  return { webhooks: found, adopt: { merchantId: adopt.merchantId, keyHash } }
}
