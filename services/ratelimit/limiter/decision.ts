import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { JsonObject } from '@tollway/chassis/json.ts'
import type { DescriptorEntry, Match } from '../rules/match.ts'
import type { Unit } from '../rules/units.ts'
import type { LimitStats } from '../stats/limit-stats.ts'

/** The most descriptors and entries of one request, together. A megabyte could contain half a million. */
export const maxParts = 10_000

/** A rate limit call, independent of its protocol. */
export interface DecisionRequest {
  readonly domain: string
  readonly descriptors: readonly DescriptorRequest[]
  /** The hits of every descriptor without its own addend; 0 counts as 1. */
  readonly hitsAddend: number
}

export interface DescriptorRequest {
  readonly entries: readonly DescriptorEntry[]
  /** An integer from 0 to 2^53-1; 0 only reads. */
  readonly hitsAddend?: number | undefined
  /**
   * The caller's limit, which replaces the configured one. Its unit is undefined if the caller sent no known
   * unit.
   */
  readonly limit?: { readonly requestsPerUnit: number; readonly unit: Unit | undefined } | undefined
}

export interface RateLimitDecision {
  readonly over: boolean
  /** One for each descriptor, in the request's order. */
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
    readonly unit: Unit
    /**
     * Whole seconds until a fixed window ends, at least 1. With another algorithm the seconds until the same
     * call would be admitted; undefined if it never would be.
     */
    readonly resetSeconds: number | undefined
  }
}

/** The decision for a descriptor without a limit. */
export const noLimit: DescriptorDecision = { over: false, remaining: 0 }

/** The call cannot be answered; `invalid` when the request is at fault. */
export class RequestError extends ExpectedError {
  override readonly name = 'RequestError'
  readonly invalid: boolean

  constructor(message: string, invalid: boolean) {
    super(message)
    this.invalid = invalid
  }
}

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

/** Holds the observer. While it is empty, a decision costs one comparison more. */
export interface ObserverSlot {
  observer: DecisionObserver | undefined
}
