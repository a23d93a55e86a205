import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { JsonObject } from '@tollway/chassis/json.ts'
import type { DescriptorEntry, Match } from '../rules/match.ts'
import type { Unit } from '../rules/units.ts'
import type { LimitStats } from '../stats/limit-stats.ts'

/**
 * The most descriptors and entries of a request, counted together. A megabyte could contain half a million.
 */
export const maxParts = 10_000

export interface DecisionRequest {
  readonly domain: string
  readonly descriptors: readonly DescriptorRequest[]
  /** The hits of every descriptor that has no `hitsAddend` of its own; 0 counts as 1. */
  readonly hitsAddend: number
  /**
   * What the caller wants instead of a decision about its hits. `check`: whether one more hit would be
   * admitted, without counting any. `report`: to count its hits, also beyond the limits, without a rejection.
   */
  readonly purpose?: 'check' | 'report'
}

export interface DescriptorRequest {
  readonly entries: readonly DescriptorEntry[]
  /** An integer from 0 to 2^53-1; 0 only reads. */
  readonly hitsAddend?: number | undefined
  /** Whether the hits are given back instead of counted. */
  readonly givesBack?: boolean | undefined
  /**
   * The caller's own limit, which replaces a configured one. `unit` is undefined if the unit is not known.
   */
  readonly limit?: { readonly requestsPerUnit: number; readonly unit: Unit | undefined } | undefined
}

/** Returns the hits of a descriptor, as a negative number if it gives them back. */
export function countHits({ descriptors, hitsAddend, purpose }: DecisionRequest, index: number): number {
  if (purpose === 'check') return 0
  const descriptor = descriptors[index]
  const hits = descriptor?.hitsAddend ?? Math.max(1, hitsAddend)
  // Subtracts from 0, because a negated 0 would be -0.
  return descriptor?.givesBack ? 0 - hits : hits
}

export interface RateLimitDecision {
  readonly over: boolean
  /** The decision for each descriptor, in the request's order. */
  readonly statuses: readonly DescriptorDecision[]
  /** Headers that the proxy adds to its response, if enabled. */
  readonly headers?: readonly ResponseHeader[]
  /** The body with which the proxy rejects the call, if enabled. */
  readonly body?: string
  /** Dynamic metadata for the proxy's filters, if enabled. */
  readonly metadata?: JsonObject
}

export interface ResponseHeader {
  readonly key: string
  readonly value: string
}

export interface DescriptorDecision {
  readonly over: boolean
  readonly remaining: number
  /** Undefined when no limit or an unlimited one matched. */
  readonly limit?: {
    readonly name: string
    readonly requestsPerUnit: number
    /** Undefined for a limit of what runs at the same time. */
    readonly unit: Unit | undefined
    /**
     * Whole seconds until a fixed window ends, at least 1. With another algorithm, the seconds until the
     * limit would admit the same call; undefined if it never would.
     */
    readonly resetSeconds: number | undefined
  }
}

export const noLimit: DescriptorDecision = { over: false, remaining: 0 }

/** The error of a call that cannot be answered. `invalid` is true if the request is at fault. */
export class RequestError extends ExpectedError {
  override readonly name = 'RequestError'
  readonly invalid: boolean

  constructor(message: string, invalid: boolean) {
    super(message)
    this.invalid = invalid
  }
}

/** Receives each decision, if it is set in the `ObserverSlot`. It must not throw. */
export interface DecisionObserver {
  /**
   * Called after a call was decided.
   *
   * @param matches the match of each descriptor; undefined for none
   * @param statuses the decision of each descriptor
   * @param nowMs the Unix time in milliseconds for which the call was decided
   * @param atMicros the Unix time in microseconds at which the backend decided, by the backend's clock;
   * undefined if the backend did not decide
   */
  decided(
    request: DecisionRequest,
    matches: readonly (Match<LimitStats> | undefined)[],
    statuses: readonly DescriptorDecision[],
    nowMs: number,
    atMicros?: number,
  ): void
}

/** Holds the observer. While it is empty, a decision costs one comparison more. */
export interface ObserverSlot {
  observer: DecisionObserver | undefined
}
