import type { Clock } from '@tollway/chassis/clock.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import { fieldOwner, type KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { kinds } from './kinds.ts'
import { autoscaledAnnotation } from './objects/workload-objects.ts'

/** The field manager that owns `replicas` until the autoscaler has written it. */
const replicasOwner = 'tollway-replicas'

/**
 * Returns whether `replicas` must be handed over before the apply: the Deployment gets an autoscaler for the
 * first time.
 */
export function mustHandOver(wanted: KubeObject, live: KubeObject | undefined): boolean {
  return isAutoscaled(wanted) && (live === undefined || !isAutoscaled(live))
}

/**
 * Prepares a Deployment for an apply without `replicas`. When the last owner of a field stops applying it,
 * the API server removes the field and then sets the default, which would leave one replica. Therefore
 * another manager applies the present number first. A new Deployment is created with `replicas`. Reads the
 * present state from the API server, and rejects with 409 if it changes meanwhile.
 */
export async function handOverReplicas(
  client: Pick<KubeClient, 'get' | 'apply'>,
  wanted: KubeObject,
  replicas: number,
): Promise<void> {
  const found = await client.get(kinds.Deployment, wanted.metadata)
  if (found !== undefined && isAutoscaled(found)) return
  const live =
    found ?? (await client.apply(kinds.Deployment, withReplicas(wanted, replicas), { force: true }))
  const { name, namespace } = wanted.metadata
  // No version is given for a new Deployment, because the controller's first update changes it, though not
  // `replicas`.
  const version = found === undefined ? {} : { resourceVersion: live.metadata.resourceVersion }
  const { apiVersion, kind } = wanted
  const number = {
    apiVersion,
    kind,
    metadata: { name, namespace, ...version },
    spec: { replicas: replicasOf(live) },
  }
  await client.apply(kinds.Deployment, number as KubeObject, { owner: replicasOwner })
}

function isAutoscaled({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[autoscaledAnnotation] !== undefined
}

function withReplicas(wanted: KubeObject, replicas: number): KubeObject {
  const { annotations: _, ...metadata } = wanted.metadata
  return { ...wanted, metadata, spec: { ...specOf(wanted), replicas } }
}

function replicasOf(object: KubeObject): unknown {
  return specOf(object)['replicas']
}

function specOf({ spec }: KubeObject): Readonly<Record<string, unknown>> {
  return isObject(spec) ? spec : {}
}

/**
 * An object that another program has changed `contestedLimits.changes` times after the operator applied it.
 */
export interface ContestedObject {
  /** The object, with `apiVersion`, `kind` and metadata. */
  readonly object: KubeObject
  /** A text for people: the change, and the program that makes it. */
  readonly message: string
}

export type ContestedObjects = ReturnType<typeof createContestedObjects>

/**
 * An object is contested after this number of changes within the window, until there is none for
 * `overAfterMs`.
 */
const contestedLimits = { changes: 3, windowMs: 30 * 60_000, overAfterMs: 10 * 60_000 } as const

interface History {
  readonly object: KubeObject
  readonly manager: string
  readonly timesMs: readonly number[]
}

export function createContestedObjects(
  clock: Pick<Clock, 'monotonicMs'>,
  onBegin: (contested: ContestedObject) => void,
) {
  const histories = new Map<string, History>()

  function isContested({ timesMs }: History): boolean {
    const last = timesMs.at(-1) ?? 0
    return (
      timesMs.length >= contestedLimits.changes && clock.monotonicMs() - last < contestedLimits.overAfterMs
    )
  }

  function forgetOld(): void {
    const oldestMs = clock.monotonicMs() - contestedLimits.windowMs
    for (const [key, history] of histories) {
      const timesMs = history.timesMs.filter(ms => ms > oldestMs)
      if (timesMs.length === 0) histories.delete(key)
      else histories.set(key, { ...history, timesMs })
    }
  }

  return {
    /**
     * Records that another program changed an object that the operator applied. `live` is undefined if it was
     * deleted.
     */
    changed(object: KubeObject, live: KubeObject | undefined): void {
      forgetOld()
      const key = `${object.kind}/${object.metadata.name}`
      const before = histories.get(key)
      const wasContested = before !== undefined && isContested(before)
      const timesMs = [...(before?.timesMs ?? []), clock.monotonicMs()]
      const { uid } = live?.metadata ?? {}
      const regarding = { ...object, metadata: { ...object.metadata, ...(uid && { uid }) } }
      const history = { object: regarding, manager: describeLastManager(live), timesMs }
      histories.set(key, history)
      if (!wasContested && isContested(history)) onBegin(toContested(history))
    },
    current(): readonly ContestedObject[] {
      forgetOld()
      return [...histories.values()].filter(isContested).map(toContested)
    },
    /** Forgets all changes. Called when this operator no longer leads. */
    clear: () => histories.clear(),
  }
}

function toContested({ object, manager, timesMs }: History): ContestedObject {
  const { kind, metadata } = object
  const minutes = contestedLimits.windowMs / 60_000
  const changes = `${timesMs.length} times within ${minutes} minutes after the operator applied it`
  const message = `${kind} "${metadata.name}" was changed ${changes}: ${manager}. ${advice}`
  return { object, message }
}

const advice = 'Make it leave the object to the operator, which repairs it twice a minute at most'

const ownManagers: ReadonlySet<unknown> = new Set([fieldOwner, replicasOwner])
/** Writes annotations of every Deployment, so it is blamed only if there is no other manager. */
const controllers = 'kube-controller-manager'

function describeLastManager(live: KubeObject | undefined): string {
  if (live === undefined) return 'another program deletes it'
  const fields = live.metadata['managedFields']
  const others = (Array.isArray(fields) ? fields : [])
    .filter(isObject)
    .filter(({ manager, subresource }) => !ownManagers.has(manager) && subresource === undefined)
    .sort((a, b) => (`${a['time']}` < `${b['time']}` ? 1 : -1))
  const found = others.find(({ manager }) => manager !== controllers) ?? others[0]
  return `the manager "${found?.['manager'] ?? 'unknown'}" changes it`
}
