import { isDeepStrictEqual } from 'node:util'
import type { SharingStatus } from '@tollway/crds/rate-limit-config.ts'
import type { StatusCondition } from '../../../status/conditions.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import type { ObjectMetadata } from '../api/kube-object.ts'

/**
 * A custom resource as the API server stores it. An operator of another version may have written its status.
 */
export interface StoredResource {
  readonly metadata: ObjectMetadata
  readonly spec?: unknown
  readonly status?: StoredStatus
}

export interface StoredStatus {
  readonly observedGeneration?: number
  readonly conditions?: readonly StatusCondition[]
  readonly enforced?: string
  /** Written by earlier versions only. */
  readonly lastGood?: { readonly generation?: number; readonly content?: string } | undefined
  /** The counts of the resource's kind: `rules`, `activeStreams`. */
  readonly [count: string]: unknown
}

/**
 * Returns the status in the form in which it is stored.
 *
 * @param before the stored status
 * @param keepsLastGood whether the field `lastGood` of an earlier version stays
 */
export function toStoredStatus(
  { observedGeneration, conditions, counts, enforced, sharing }: ResourceStatus,
  before: StoredStatus,
  keepsLastGood: boolean,
): StoredStatus {
  const { quota, leases } = sharing === 'unknown' ? readSharing(before) : (sharing ?? {})
  return {
    observedGeneration,
    conditions,
    ...counts,
    enforced,
    ...(keepsLastGood && before.lastGood && { lastGood: before.lastGood }),
    ...(quota && { quota }),
    ...(leases && { leases }),
  }
}

/** Returns the fields about shares; the API server has checked their form. */
export function readSharing({ quota, leases }: StoredStatus): SharingStatus {
  return { ...(quota !== undefined && { quota }), ...(leases !== undefined && { leases }) } as SharingStatus
}

/** Returns whether both are equal. The order of fields and conditions does not matter. */
export function isSameStatus(a: StoredStatus, b: StoredStatus): boolean {
  return isDeepStrictEqual({ ...a, conditions: byType(a) }, { ...b, conditions: byType(b) })
}

function byType({ conditions = [] }: StoredStatus): Record<string, StatusCondition> {
  return Object.fromEntries(conditions.map(condition => [condition.type, condition]))
}

export function readyCondition(status: Pick<StoredStatus, 'conditions'>): StatusCondition | undefined {
  return findCondition(status, 'Ready')
}

function findCondition({ conditions = [] }: Pick<StoredStatus, 'conditions'>, wanted: string) {
  return conditions.find(({ type }) => type === wanted)
}

/**
 * Returns whether a stored status reports another choice about the same version of a resource than the own
 * one: whether it is accepted, and which content is in force. Texts with times, such as the end of a kept
 * claim, are not compared.
 */
export function isOtherChoice(stored: StoredStatus, own: ResourceStatus): boolean {
  const [theirs, ours] = [readChoice(stored), readChoice(own)]
  if (theirs.accepted === undefined) return false
  // The generation of a paused resource is that of its content in force.
  const isComparable = stored.observedGeneration === own.observedGeneration || (theirs.paused && ours.paused)
  if (!isComparable) return false
  return (
    stored.observedGeneration !== own.observedGeneration ||
    theirs.accepted !== ours.accepted ||
    (theirs.inForce !== undefined && ours.inForce !== undefined && theirs.inForce !== ours.inForce)
  )
}

/** Returns whether a stored status says that no version of the resource is in force. */
export function hasNothingInForce(stored: StoredStatus): boolean {
  return readChoice(stored).inForce === 'nothing'
}

function readChoice(status: Pick<StoredStatus, 'conditions'>) {
  const programmed = findCondition(status, 'Programmed')
  const others: Readonly<Record<string, string | undefined>> = {
    NotAccepted: 'nothing',
    LastGoodInForce: programmed?.message,
    NotPublished: undefined,
  }
  const reason = programmed?.reason ?? 'NotPublished'
  return {
    accepted: findCondition(status, 'Accepted')?.reason,
    inForce: reason in others ? others[reason] : 'present',
    paused: findCondition(status, 'Paused') !== undefined,
  }
}
