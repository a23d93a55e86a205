import type { AnimationStreamRouteSpec } from '@tollway/crds/animation-stream-route.ts'
import { validateAnimationStreamRoute } from '@tollway/crds/validation/validate-animation-stream-route.ts'
import type { StreamRoute } from '../../translated-types.ts'
import type { FieldProblem, Translation } from '../translation.ts'

/** Translates an AnimationStreamRoute to the form of brokers, without the tokens, which are in Secrets. */
export function translateAnimationStreamRoute(name: string, resource: unknown): Translation<StreamRoute> {
  const checked = validateAnimationStreamRoute(resource)
  if ('problems' in checked) return { problems: checked.problems }
  return { value: toRoute(name, checked.value), warnings: doubtful(checked.value) }
}

const slowConsumers = { wait: 'wait', dropOldest: 'drop-oldest', cutOff: 'cut-off' } as const

function toRoute(name: string, spec: AnimationStreamRouteSpec): StreamRoute {
  const { match, rules, lateJoiners, limits, concurrentRequests } = spec
  const { tokenSecretRef, pushTokenSecretRef, pullTokenSecretRef } = spec
  const { from, seconds = 0 } = lateJoiners
  const { webhook } = spec.notify ?? {}
  return {
    name,
    match,
    rules,
    lateJoiners: from === 'last' ? { from, seconds } : { from },
    slowConsumers: slowConsumers[spec.slowConsumers],
    concurrentRequests,
    limits,
    ...(tokenSecretRef && { tokenSecret: tokenSecretRef }),
    ...(pushTokenSecretRef && { pushTokenSecret: pushTokenSecretRef }),
    ...(pullTokenSecretRef && { pullTokenSecret: pullTokenSecretRef }),
    ...(webhook && { webhook: { url: webhook.url, secret: webhook.secretRef } }),
  }
}

/** Returns warnings for settings that are valid and have no effect. */
function doubtful({ rules }: AnimationStreamRouteSpec): readonly FieldProblem[] {
  if (rules.audio !== 'off' || rules.audioFormats.length === 0) return []
  const message = 'the formats have no effect, since the rule audio is off'
  return [{ path: 'spec.rules.audioFormats', message }]
}
