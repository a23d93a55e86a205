import type { Match } from '../rules/match.ts'
import type { LimitStats } from '../stats/registry/limit-stats.ts'
import type { DecisionRequest, DescriptorDecision } from './decision.ts'

/** Receives each decision while there is a use for it. It must not throw. */
export interface DecisionObserver {
  /**
   * Called after a call was decided.
   *
   * @param matches the match of each descriptor; undefined for none
   * @param statuses the decision of each descriptor
   * @param nowMs Unix time in milliseconds, by which the call was decided
   * @param atMicros Unix time in microseconds by the clock of the backend, if that decided about the call
   */
  decided(
    request: DecisionRequest,
    matches: readonly (Match<LimitStats> | undefined)[],
    statuses: readonly DescriptorDecision[],
    nowMs: number,
    atMicros?: number,
  ): void
}

/** The place of the observer. While it is empty, a decision costs one comparison more. */
export interface ObserverSlot {
  observer: DecisionObserver | undefined
}
