import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { KubeClient } from './client.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'

/** An Event about an object, which `kubectl describe` and `kubectl events` show. */
interface ObjectEvent {
  /** The object as it was read, with `apiVersion` and `kind`. */
  readonly regarding: KubeObject
  readonly type: 'Normal' | 'Warning'
  /** A CamelCase word for programs that says why. */
  readonly reason: string
  /** A CamelCase word for the action that was taken or attempted. */
  readonly action: string
  /** A text for people. It is truncated to 1,024 bytes, because the API server rejects longer ones. */
  readonly note: string
}

/** Records Events for people. Some may be lost, and nothing depends on them. */
export type EventRecorder = ReturnType<typeof createEventRecorder>

interface EventRecorderOptions {
  readonly client: Pick<KubeClient, 'create'>
  readonly reportingInstance: string
  /** Returns a unique part for the name of an Event, of letters and digits. */
  readonly newId: () => string
  /**
   * Called at most every 30 s with the number of Events that were lost since the last call, and the last
   * cause.
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
/** An equal Event is not recorded again within this time. */
const repeatMs = 600_000
/** At most this many Events are remembered; the oldest are forgotten first. */
const maxRemembered = 1_000
/** While this many writes are pending, further Events are dropped. */
const maxPending = 50
/**
 * Events beyond this rate are dropped, so that a bulk change does not double the writes to the API server.
 */
const eventsPerSecond = 5
const eventsAtOnce = 100
/** Losses within this time are reported together. */
const lossesMs = 30_000

export function createEventRecorder(options: EventRecorderOptions) {
  const { client, clock = systemClock, onLost } = options
  /** When each Event was last recorded, oldest first. */
  const recorded = new Map<string, number>()
  const pending = new Set<Promise<unknown>>()
  const rate = new RateLimiter({ perSecond: eventsPerSecond, burst: eventsAtOnce }, clock)
  const losses = createLosses(onLost)

  function wasRecordedLately(key: string): boolean {
    const recordedMs = recorded.get(key)
    return recordedMs !== undefined && clock.monotonicMs() - recordedMs < repeatMs
  }

  /**
   * Deleting from the front of a Map leaves gaps that each walk skips, so this runs only for recorded Events.
   */
  function remember(key: string): void {
    recorded.delete(key)
    recorded.set(key, clock.monotonicMs())
    for (const oldest of recorded.keys()) {
      if (recorded.size <= maxRemembered) break
      recorded.delete(oldest)
    }
  }

  return {
    /** Records the Event unless an equal one was recorded within `repeatMs`. Never throws. */
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
    /** Resolves when all recorded Events have been sent or lost. */
    async settled(): Promise<void> {
      await Promise.all(pending)
      losses.report()
    },
  }
}

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
  // Leaves room for the ellipsis and for a replacement character in place of a cut one.
  return `${bytes.subarray(0, maxNoteBytes - 6).toString()}…`
}
