import type { Subscription } from '@tollway/discovery/discovery-session.ts'
import { maxFindings } from '../rules/findings.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { Configuration } from './configuration.ts'
import { rateLimitTypeUrl } from './resource-type.ts'

/** What the service asks a management server for: its resources are loaded into the configuration. */
export function subscribe({ load }: Pick<Configuration, 'load'>): Subscription {
  return {
    typeUrl: rateLimitTypeUrl,
    async load({ typeUrl, resources }) {
      // Another thread may read them, which takes nothing but plain objects.
      const plain = resources.map(({ typeUrl: type, value }) => ({ typeUrl: type, value }))
      const problems = await load({ from: 'response', typeUrl, resources: plain })
      return problems.slice(0, maxFindings + 1).map(formatProblem)
    },
  }
}
