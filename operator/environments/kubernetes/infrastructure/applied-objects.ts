import type { Clock } from '@tollway/chassis/clock.ts'
import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { isOlderVersion, versionOf } from '../../../controller/reflector-store.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { isSuperset } from './is-superset.ts'

/**
 * Remembers the result of each apply. An unchanged object is not applied twice. An applied object that
 * another program changes is repaired at most at the `repairRate`.
 */
export type AppliedObjects = ReturnType<typeof createAppliedObjects>

/** What to do about an object. `wait`: decide again after this time, or after the next event. */
export type NextStep =
  | { readonly what: 'leave' }
  /** `isRepair`: another program changed or deleted the applied object. */
  | { readonly what: 'apply'; readonly isRepair: boolean }
  | { readonly what: 'wait'; readonly ms: number; readonly why: 'unseen' | 'contested' }

/** The watch must report an apply within this time; otherwise the apply counts as lost. */
export const unseenMs = 5_000

interface Applied {
  readonly wanted: string
  /** The content of the result that writers decide; see `serializeContent`. */
  readonly content: string
  readonly result: KubeObject
  readonly atMs: number
  /** Whether the watch has reported this result or a later state of the object. */
  seen: boolean
}

/**
 * The rate of repairs of an object that another program changes. Without a limit, two programs with different
 * desired states would overload the API server.
 */
const repairRate = { perSecond: 1 / 60, burst: 2 } as const

export function countRepair(repairs: Map<string, RateLimiter>, key: string, clock: Clock): void {
  getOrAdd(repairs, key, () => new RateLimiter(repairRate, clock)).reserve()
}

export function createAppliedObjects(clock: Clock) {
  const known = new Map<string, Applied>()
  const repairs = new Map<string, RateLimiter>()

  function nextStep(key: string, wanted: KubeObject, live: KubeObject | undefined): NextStep {
    const last = known.get(key)
    if (last === undefined)
      return isEnough(live, wanted) ? { what: 'leave' } : { what: 'apply', isRepair: false }
    const isBehind = isOutdated(last, live)
    // A state from before the last write says nothing about the newly wanted state.
    if (last.wanted !== JSON.stringify(wanted)) {
      return !isBehind && isEnough(live, wanted) ? { what: 'leave' } : { what: 'apply', isRepair: false }
    }
    if (isBehind) {
      const ms = last.atMs + unseenMs - clock.monotonicMs()
      if (ms > 0) return { what: 'wait', ms, why: 'unseen' }
    } else if (isEnough(live, wanted) || (live !== undefined && serializeContent(live) === last.content)) {
      return { what: 'leave' }
    }
    const ms = repairs.get(key)?.waitMs() ?? 0
    if (ms <= 0) return { what: 'apply', isRepair: !isBehind }
    return { what: 'wait', ms, why: isBehind ? 'unseen' : 'contested' }
  }

  return {
    /** Returns what to do about a wanted object. `live` is its last known state. */
    nextStep,
    /** Returns the results for which `find` returns nothing, or an older state. */
    unseen: (find: (result: KubeObject) => KubeObject | undefined): readonly KubeObject[] =>
      Array.from(known.values())
        .filter(last => isOutdated(last, find(last.result)))
        .map(({ result }) => result),
    applied(key: string, wanted: KubeObject, result: KubeObject): void {
      const last = known.get(key)
      const text = JSON.stringify(wanted)
      if (last?.wanted === text) countRepair(repairs, key, clock)
      else repairs.delete(key)
      known.set(key, {
        wanted: text,
        content: serializeContent(result),
        result: { apiVersion: wanted.apiVersion ?? '', kind: wanted.kind ?? '', metadata: result.metadata },
        atMs: clock.monotonicMs(),
        seen: last?.seen === true && versionOf(last.result) === versionOf(result),
      })
    },
    forget(key: string): void {
      known.delete(key)
      repairs.delete(key)
    },
  }
}

function isOutdated(last: Applied, live: KubeObject | undefined): boolean {
  if (live === undefined) return !last.seen
  const isOlder = isOlderVersion(versionOf(live), versionOf(last.result))
  if (!isOlder) last.seen = true
  return isOlder
}

function isEnough(live: KubeObject | undefined, wanted: KubeObject): boolean {
  if (live === undefined) return false
  // Objects of a list lack these two fields, which never differ between objects of one kind.
  const { apiVersion: _version, kind: _kind, ...rest } = wanted
  return isSuperset(live, rest)
}

/** Returns the content that writers decide, without the status and the counters of the API server. */
function serializeContent(object: KubeObject): string {
  const { apiVersion: _version, kind: _kind, status: _status, metadata, ...content } = object
  const { labels, annotations, ownerReferences } = metadata
  return JSON.stringify([sorted({ labels, annotations, ownerReferences }), sorted(content)])
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, inner]) => [name, sorted(inner)]))
}
