import { isDeepStrictEqual } from 'node:util'
import type { Condition } from '../controller/conditions.ts'
import type { Named } from '../kinds/fed-kind.ts'
import type { Memory } from '../reconcilers/remembered.ts'
import type { ResourceStatus } from '../reconcilers/resource-status.ts'
import { encodeLastGood } from './last-good.ts'

/** A custom resource as the API server stores it. Its status was written by an operator, of any version. */
export interface StoredResource {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid?: string
    readonly resourceVersion?: string
    readonly generation?: number
    readonly creationTimestamp?: unknown
    /** Set when the deletion was asked for and finalizers still hold it. */
    readonly deletionTimestamp?: string
    readonly finalizers?: readonly string[]
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: unknown
  readonly status?: StoredStatus
}

export interface StoredStatus {
  readonly observedGeneration?: number
  readonly conditions?: readonly Condition[]
  readonly enforced?: string
  readonly lastGood?: { readonly generation?: number; readonly content?: string }
  /** The numbers of its kind: `rules`, `activeStreams`. */
  readonly [count: string]: unknown
}

/** The status as it is written, with what is remembered of the resource. */
export function toStoredStatus(status: ResourceStatus, memory: Memory<Named> | undefined): StoredStatus {
  const { observedGeneration, conditions, counts, enforced } = status
  const { lastGood, lastGoodGeneration = 0 } = memory ?? {}
  return {
    observedGeneration,
    conditions,
    ...counts,
    enforced,
    ...(lastGood && {
      lastGood: { generation: lastGoodGeneration, content: encodeLastGood(lastGood) },
    }),
  }
}

/** Whether one stands for the other: a status as it was read has its fields in another order. */
export function isSameStatus(a: StoredStatus, b: StoredStatus): boolean {
  return isDeepStrictEqual({ ...a, conditions: byType(a) }, { ...b, conditions: byType(b) })
}

function byType({ conditions = [] }: StoredStatus): Record<string, Condition> {
  return Object.fromEntries(conditions.map(condition => [condition.type, condition]))
}

export function readyCondition({ conditions = [] }: StoredStatus): Condition | undefined {
  return conditions.find(({ type }) => type === 'Ready')
}
