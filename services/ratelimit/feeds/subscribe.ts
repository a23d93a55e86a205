import type { Subscription } from '@tollway/discovery/discovery-session.ts'
import { features } from '../rules/extensions/features.ts'
import { maxFindings } from '../rules/findings/findings.ts'
import { formatProblem } from '../rules/findings/format-problem.ts'
import type { Configuration } from './configuration.ts'
import { rateLimitTypeUrl } from './reading.ts'

/** Returns the subscription to the service's resources, which loads them into the configuration. */
export function subscribe({ load }: Pick<Configuration, 'load'>): Subscription {
  return {
    typeUrl: rateLimitTypeUrl,
    features,
    async load({ typeUrl, resources }, hashes) {
      // Another thread may read the resources, and only plain objects can be sent to it.
      const plain = resources.map(({ typeUrl: type, value }) => ({ typeUrl: type, value }))
      const problems = await load({ from: 'response', typeUrl, resources: plain, hashes })
      return problems.slice(0, maxFindings + 1).map(formatProblem)
    },
  }
}
