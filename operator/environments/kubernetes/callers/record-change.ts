import type { Clock } from '@tollway/chassis/clock.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import type { CounterChangeEvent } from '../../../api/sources.ts'
import type { EventRecorder } from '../api/events.ts'
import type { ClusterController } from '../controller.ts'

export function recordCounterChange(
  events: Pick<EventRecorder, 'record'>,
  limits: Pick<ClusterController, 'list'>,
  clock: Pick<Clock, 'nowMs'>,
  { user, action, domain, rule, by, owner, unknown }: CounterChangeEvent,
): void {
  const found = limits
    .list()
    .find(({ metadata }) => metadata.namespace === owner?.namespace && metadata.name === owner?.name)
  if (found === undefined) return
  const done = by === undefined ? 'reset a counter' : `raised a counter by ${by}`
  const what = unknown === undefined ? done : `may have ${done}`
  const where = rule === '' ? `in the domain ${domain}` : `of the rule ${rule} in the domain ${domain}`
  // Equal Events are recorded only once in ten minutes, so the note contains the time.
  const time = new Date(clock.nowMs()).toISOString()
  const why = unknown === undefined ? '' : `: ${unknown}`
  events.record({
    regarding: { apiVersion, kind: 'RateLimitConfig', metadata: found.metadata },
    type: unknown === undefined ? 'Normal' : 'Warning',
    reason: action === 'reset' ? 'CounterReset' : 'CounterRaised',
    action: action === 'reset' ? 'Reset' : 'Raise',
    note: `${user} ${what} ${where} at ${time}${why}`,
  })
}
