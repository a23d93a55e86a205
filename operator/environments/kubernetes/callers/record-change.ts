import type { Clock } from '@tollway/chassis/clock.ts'
import type { CounterChangeEvent } from '../../../api/sources.ts'
import { apiVersion } from '../api/custom-resources.ts'
import type { EventRecorder } from '../api/events.ts'
import type { ClusterController } from '../controller.ts'

/** Records an Event of the RateLimitConfig whose counter a user changed. */
export function recordChange(
  events: Pick<EventRecorder, 'record'>,
  limits: Pick<ClusterController, 'list'>,
  clock: Pick<Clock, 'nowMs'>,
  { user, action, domain, rule, by, owner }: CounterChangeEvent,
): void {
  const found = limits
    .list()
    .find(({ metadata }) => metadata.namespace === owner?.namespace && metadata.name === owner?.name)
  if (found === undefined) return
  const done = by === undefined ? 'reset a counter' : `raised a counter by ${by}`
  // Equal notes are recorded once in ten minutes, so the note has the time.
  const time = new Date(clock.nowMs()).toISOString()
  const note = `${user} ${done} of the rule ${rule} in the domain ${domain} at ${time}`
  const reason = action === 'reset' ? 'CounterReset' : 'CounterRaised'
  const regarding = { apiVersion, kind: 'RateLimitConfig', metadata: found.metadata }
  events.record({ regarding, type: 'Normal', reason, action: action === 'reset' ? 'Reset' : 'Raise', note })
}
