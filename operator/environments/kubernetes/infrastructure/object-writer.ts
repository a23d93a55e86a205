import type { Clock } from '@tollway/chassis/clock.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { createAppliedObjects, type Judgement, unseenMs } from './applied-objects.ts'
import type { Contests } from './contests.ts'
import { handOverReplicas, mustHandOver } from './hand-over-replicas.ts'
import { type Kind, kindOf, kinds } from './kinds.ts'
import { labelNames } from './objects/place.ts'
import type { KindObject } from './own-objects.ts'
import { refusal } from './refusal.ts'
import { createRepairPace } from './repair-pace.ts'

/** Writes single objects, each only where it must. Rejects with an `InfrastructureError`. */
export interface ObjectWriter {
  /**
   * Applies the object. Resolves with the delay before the next apply, if it must not be written now.
   *
   * @param replicas with how many a Deployment begins that scales by itself
   */
  put(wanted: KubeObject, live: KubeObject | undefined, replicas: number): Promise<number | undefined>
  /** Asks for the deletion of this very state of an object; resolves likewise. */
  remove(live: KubeObject): Promise<number | undefined>
  /** The objects of a workload that were created and that the watches have not shown yet. */
  unseen(workload: string): readonly KindObject[]
}

export interface ObjectWriterOptions {
  readonly client: Pick<KubeClient, 'get' | 'apply' | 'delete'>
  /** Returns the known state of an object. */
  readonly find: (kind: Kind, name: string) => KubeObject | undefined
  readonly clock: Clock
  readonly mayWrite: () => boolean
  readonly onProblem: (message: string) => void
  readonly contests: Pick<Contests, 'changed'>
  /** Of the present term: ends each call that is on its way. */
  readonly signal: () => AbortSignal
}

export function createObjectWriter(options: ObjectWriterOptions): ObjectWriter {
  const { clock, onProblem, contests } = options
  const applied = createAppliedObjects(clock)
  const removals = createRepairPace(clock)
  const client = leadersClient(options)
  /** The reported problem of each object, until it is over. */
  const told = new Map<string, string>()
  /** Objects that differ from their applied state and are repaired later. */
  const withheld = new Set<string>()
  /** When the deletion of an object with this uid was asked for. */
  const removedMs = new Map<string, number>()

  function tell(key: string, message: string): void {
    if (told.get(key) !== message) onProblem(message)
    told.set(key, message)
  }

  async function put(wanted: KubeObject, known: KubeObject | undefined, replicas: number) {
    const key = nameOf(wanted)
    const live = wasRemovedLately(known?.metadata.uid ?? '') ? undefined : known
    if (live?.metadata.deletionTimestamp !== undefined) {
      const held = live.metadata.finalizers?.join(', ') ?? ''
      tell(key, `${key} is being deleted, and is made anew when it is gone; its finalizers: ${held}`)
      return undefined
    }
    const judgement = applied.judge(key, wanted, live)
    // A change whose repair has to wait is counted once.
    if (isForeignChange(judgement) && !withheld.has(key)) contests.changed(wanted, live)
    if (judgement.what === 'wait') {
      if (judgement.why === 'fight') withheld.add(key)
      return judgement.ms
    }
    told.delete(key)
    withheld.delete(key)
    if (judgement.what === 'leave') return undefined
    if (kindOf(wanted) === 'Deployment' && mustHandOver(wanted, live)) {
      await handOverReplicas(client, wanted, replicas)
    }
    removals.forget(key)
    applied.applied(key, wanted, await client.apply(kinds[kindOf(wanted)], wanted, { force: true }))
    return undefined
  }

  async function remove(live: KubeObject): Promise<number | undefined> {
    const key = nameOf(live)
    const { uid = '', deletionTimestamp } = live.metadata
    if (deletionTimestamp !== undefined || wasRemovedLately(uid)) return undefined
    const waitMs = removals.waitMs(key)
    if (waitMs > 0) return waitMs
    await client.delete(kinds[kindOf(live)], { ...live.metadata, uid })
    removedMs.set(uid, clock.monotonicMs())
    if (removals.count(key) > 1) contests.changed(live, live)
    applied.forget(key)
    return undefined
  }

  /** The watched copy may still contain an object that was just deleted. */
  function wasRemovedLately(uid: string): boolean {
    const nowMs = clock.monotonicMs()
    for (const [other, atMs] of removedMs) {
      if (nowMs - atMs > unseenMs) removedMs.delete(other)
    }
    return removedMs.has(uid)
  }

  return {
    unseen: workload =>
      applied
        .unseen(result => options.find(kindOf(result), result.metadata.name))
        .filter(({ metadata }) => metadata.labels?.[labelNames.name] === workload)
        .map(object => ({ kind: kindOf(object), object })),
    async put(wanted, live, replicas) {
      try {
        return await put(wanted, live, replicas)
      } catch (error) {
        throw refusal(error, 'applied', wanted)
      }
    },
    async remove(live) {
      try {
        return await remove(live)
      } catch (error) {
        throw refusal(error, 'deleted', live)
      }
    },
  }
}

/** Writes only while this process leads, and ends a call when its term ends. */
function leadersClient({ client, mayWrite, signal }: ObjectWriterOptions): ObjectWriterOptions['client'] {
  const assertLeading = () => {
    if (!mayWrite()) throw new InfrastructureError('write nothing: another operator has the Lease')
  }
  return {
    get: (resource, key) => client.get(resource, key, { signal: signal() }),
    async apply(resource, object, options) {
      assertLeading()
      return client.apply(resource, object, { ...options, signal: signal() })
    },
    async delete(resource, version) {
      assertLeading()
      await client.delete(resource, version, { signal: signal() })
    },
  }
}

/** Returns whether another program changed an applied object. */
function isForeignChange(judgement: Judgement): boolean {
  if (judgement.what === 'wait') return judgement.why === 'fight'
  return judgement.what === 'apply' && judgement.isRepair
}

function nameOf({ kind, metadata }: KubeObject): string {
  return `${kind} "${metadata.name}"`
}
