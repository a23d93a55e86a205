import type { Clock } from '@tollway/chassis/clock.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'

/**
 * Measures the time from the first sight of a resource's content until all pods that accept calls enforce it.
 * Invalid content is not measured, and neither is content that existed at the first call.
 *
 * @param observe called with seconds
 */
export function createPropagationWatch(clock: Clock, observe: (seconds: number) => void) {
  /** The newest seen generation by uid, with the time of its first sight; undefined once it is enforced. */
  const seen = new Map<string, { readonly generation: number; sinceMs: number | undefined }>()
  let isFirstCall = true

  return function measure(statuses: readonly ResourceStatus[]): void {
    const nowMs = clock.monotonicMs()
    for (const status of statuses) {
      const { uid, observedGeneration: generation } = status
      let known = seen.get(uid)
      if (known?.generation !== generation) {
        known = { generation, sinceMs: isFirstCall ? undefined : nowMs }
        seen.set(uid, known)
      }
      if (known.sinceMs === undefined || !isEnforced(status)) continue
      observe((nowMs - known.sinceMs) / 1000)
      known.sinceMs = undefined
    }
    isFirstCall = false
    if (seen.size > statuses.length) {
      const uids = new Set(statuses.map(({ uid }) => uid))
      for (const uid of seen.keys()) if (!uids.has(uid)) seen.delete(uid)
    }
  }
}

function isEnforced({ conditions }: ResourceStatus): boolean {
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
}
