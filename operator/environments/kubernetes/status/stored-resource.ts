import { isDeepStrictEqual } from 'node:util'
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
 * Returns the status in the form in which it is stored. `lastGood` is the field of an earlier version, if it
 * is kept.
 */
export function toStoredStatus(
  { observedGeneration, conditions, counts, enforced }: ResourceStatus,
  lastGood: StoredStatus['lastGood'],
): StoredStatus {
  return { observedGeneration, conditions, ...counts, enforced, ...(lastGood && { lastGood }) }
}

/** Returns whether both are equal. The order of fields and conditions does not matter. */
export function isSameStatus(a: StoredStatus, b: StoredStatus): boolean {
  return isDeepStrictEqual({ ...a, conditions: byType(a) }, { ...b, conditions: byType(b) })
}

function byType({ conditions = [] }: StoredStatus): Record<string, StatusCondition> {
  return Object.fromEntries(conditions.map(condition => [condition.type, condition]))
}

export function readyCondition({ conditions = [] }: StoredStatus): StatusCondition | undefined {
  return conditions.find(({ type }) => type === 'Ready')
}
