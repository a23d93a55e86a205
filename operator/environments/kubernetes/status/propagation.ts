import type { Clock } from '@tollway/chassis/clock.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'

/**
 * Measures the time from when a resource's content is first seen until all pods that accept calls enforce it.
 * Invalid content is not measured, nor is content that exists at the first call.
 *
 * @param observe called with the time in seconds
 */
export function createPropagationWatch(clock: Clock, observe: (seconds: number) => void) {
  /**
   * By uid, the newest generation and when it was first seen; `sinceMs` is undefined if it is not measured
   * any more.
   */
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
