import { isDeepStrictEqual } from 'node:util'
import type { StatusCondition } from '../../../status/conditions.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import type { ObjectMetadata } from '../api/kube-object.ts'

/** A custom resource as the API server stores it. Its status was written by an operator, of any version. */
export interface StoredResource {
  readonly metadata: ObjectMetadata
  readonly spec?: unknown
  readonly status?: StoredStatus
}

export interface StoredStatus {
  readonly observedGeneration?: number
  readonly conditions?: readonly StatusCondition[]
  readonly enforced?: string
  /** Written by earlier versions. */
  readonly lastGood?: { readonly generation?: number; readonly content?: string } | undefined
  /** The counts of its kind: `rules`, `activeStreams`. */
  readonly [count: string]: unknown
}

/** The status as it is written, with the `lastGood` of an older operator where that stays. */
export function toStoredStatus(
  { observedGeneration, conditions, counts, enforced }: ResourceStatus,
  lastGood: StoredStatus['lastGood'],
): StoredStatus {
  return { observedGeneration, conditions, ...counts, enforced, ...(lastGood && { lastGood }) }
}

/** Returns whether both are equal. A status from the API server has its fields in another order. */
export function isSameStatus(a: StoredStatus, b: StoredStatus): boolean {
  return isDeepStrictEqual({ ...a, conditions: byType(a) }, { ...b, conditions: byType(b) })
}

function byType({ conditions = [] }: StoredStatus): Record<string, StatusCondition> {
  return Object.fromEntries(conditions.map(condition => [condition.type, condition]))
}

export function readyCondition({ conditions = [] }: StoredStatus): StatusCondition | undefined {
  return conditions.find(({ type }) => type === 'Ready')
}
