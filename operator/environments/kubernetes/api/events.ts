import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { KubeClient } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

/** An Event of an object, for `kubectl describe` and `kubectl events`. */
export interface ObjectEvent {
  /** The object of the Event, as it was read, with its `apiVersion` and `kind`. */
  readonly regarding: KubeObject
  readonly type: 'Normal' | 'Warning'
  /** The reason, one CamelCase word for programs. */
  readonly reason: string
  /** The action that was taken or attempted, in one CamelCase word. */
  readonly action: string
  /** The text for people. Longer ones are truncated to 1,024 bytes, because the API server rejects them. */
  readonly note: string
}

/** Records Events for people, best effort: Events are not state, and nothing depends on them. */
export type EventRecorder = ReturnType<typeof createEventRecorder>

interface EventRecorderOptions {
  readonly client: Pick<KubeClient, 'create'>
  /** The pod's name. */
  readonly reportingInstance: string
  /** Returns a part of a name that is unique for all Events of an object: hexadecimal digits, for example. */
  readonly newId: () => string
  /**
   * Called with the number of Events that were not recorded since the last call, and the last cause: at most
   * every 30 s.
   */
  readonly onLost: (count: number, cause: string) => void
  readonly clock?: Clock
}

const eventResource: ApiResource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  namespaced: true,
}
const maxNoteBytes = 1_024
const maxObjectNameLength = 200
/** The same Event is recorded again after this time at the earliest. */
const repeatMs = 600_000
/** The number of remembered Events; the oldest are forgotten first. */
const maxRemembered = 1_000
/** Events beyond this number of pending writes are dropped. */
const maxPending = 50
/** A bulk change must not double the writes to the API server: beyond that rate events are dropped. */
const eventsPerSecond = 5
const eventsAtOnce = 100
/** Losses within this time are reported together. */
const lossesMs = 30_000

export function createEventRecorder(options: EventRecorderOptions) {
  const { client, clock = systemClock, onLost } = options
  /** The time of the last record of each Event, in the order of these times. */
  const recorded = new Map<string, number>()
  const pending = new Set<Promise<unknown>>()
  const rate = new RateLimiter({ perSecond: eventsPerSecond, burst: eventsAtOnce }, clock)
  const losses = createLosses(onLost)

  function wasRecordedLately(key: string): boolean {
    const recordedMs = recorded.get(key)
    return recordedMs !== undefined && clock.monotonicMs() - recordedMs < repeatMs
  }

  /** Finding the oldest costs a walk over forgotten ones, so it is called for recorded Events only. */
  function remember(key: string): void {
    recorded.delete(key)
    recorded.set(key, clock.monotonicMs())
    for (const oldest of recorded.keys()) {
      if (recorded.size <= maxRemembered) break
      recorded.delete(oldest)
    }
  }

  return {
    /** Never throws. The same Event is not recorded again within ten minutes. */
    record(event: ObjectEvent): void {
      const { regarding, type, reason, note } = event
      const key = JSON.stringify([regarding.metadata.uid, type, reason, note])
      if (wasRecordedLately(key)) return
      if (pending.size >= maxPending) return void losses.add(`${maxPending} Events wait for the API server`)
      if (!rate.tryAcquire()) return void losses.add(`more than ${eventsPerSecond} Events a second`)
      remember(key)
      const sent = client
        .create(eventResource, toObject(event, options, clock.nowMs()))
        .catch((error: unknown) => losses.add(`${error}`))
        .finally(() => pending.delete(sent))
      pending.add(sent)
    },
    /** Resolves when all recorded Events have been sent or dropped. */
    async settled(): Promise<void> {
      await Promise.all(pending)
      losses.report()
    },
  }
}

/** Counts lost Events, and reports the number after `lossesMs`. */
function createLosses(onLost: EventRecorderOptions['onLost']) {
  let count = 0
  let cause = ''
  let timer: NodeJS.Timeout | undefined

  function report(): void {
    clearTimeout(timer)
    timer = undefined
    const lost = count
    count = 0
    if (lost > 0) onLost(lost, cause)
  }

  return {
    report,
    add(why: string): void {
      count += 1
      cause = why
      timer ??= setTimeout(report, lossesMs).unref()
    },
  }
}

function toObject(
  { regarding, type, reason, action, note }: ObjectEvent,
  { newId, reportingInstance }: EventRecorderOptions,
  nowMs: number,
): KubeObject {
  const { apiVersion, kind, metadata } = regarding
  const { namespace = 'default', name, uid, resourceVersion } = metadata
  const shortName = name.slice(0, maxObjectNameLength).replace(/[-.]+$/, '')
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { namespace, name: `${shortName}.${newId()}` },
    eventTime: new Date(nowMs).toISOString().replace('Z', '000Z'),
    type,
    reason,
    action,
    note: limitBytes(note),
    regarding: { apiVersion, kind, namespace: metadata.namespace, name, uid, resourceVersion },
    reportingController: `${apiGroup}/operator`,
    reportingInstance,
  }
}

function limitBytes(note: string): string {
  const bytes = Buffer.from(note)
  if (bytes.length <= maxNoteBytes) return note
  // Leaves room for the ellipsis, and for the replacement of a truncated character.
  return `${bytes.subarray(0, maxNoteBytes - 6).toString()}…`
}
