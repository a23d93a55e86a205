import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { settings } from '@tollway/payments/settings.ts'
import type { SourcedResource } from '../../../kinds/source.ts'
import { tollwayNamespace, uuid5 } from './uuid5.ts'

const kind = 'RateLimitConfig'
const namespace = 'tollway-system'
const name = 'tollway-payments-api'

/** The settings with these limits, by the descriptor keys with which the payments service requests them. */
const limits = {
  address: settings.apiCallsPerAddress,
  key: settings.apiCallsPerKey,
  failed_key: settings.apiFailedKeysPerAddress,
} as const

/**
 * Returns the limits of the payments API for the rate limit service of this machine. The chart has the same
 * limits for a cluster. A RateLimitConfig of the same name in the folder replaces them.
 *
 * @param env the settings of the payments service
 */
export function paymentsApiLimits(env: Readonly<Record<string, string>>): SourcedResource {
  const descriptors = Object.entries(limits).map(([key, { name: setting, fallback }]) => {
    return { key, rateLimit: { unit: 'minute', requestsPerUnit: Number(env[setting] ?? fallback) } }
  })
  return {
    apiVersion,
    kind,
    namespace,
    name,
    uid: uuid5(tollwayNamespace, `${kind}/${namespace}/${name}`),
    generation: 1,
    paused: false,
    spec: { domain: env[settings.rateLimitDomain.name] ?? settings.rateLimitDomain.fallback, descriptors },
    origin: '--payments',
  }
}
