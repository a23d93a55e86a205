import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { JsonObject, Unit } from '../rules/config.ts'

/** The most descriptors and entries of one request, together. A megabyte could hold half a million. */
export const maxParts = 10_000

/** A rate limit call and its answer, whatever protocol it came by. */
export interface DecisionRequest {
  readonly domain: string
  readonly descriptors: readonly DescriptorRequest[]
  /** Hits of every descriptor that says none itself; 0 counts as 1. */
  readonly hitsAddend: number
}

export interface DescriptorRequest {
  readonly entries: readonly Entry[]
  /** Whole, 0 to 2^53-1; 0 only looks. */
  readonly hitsAddend?: number | undefined
  /**
   * The caller's own limit instead of the configured one. undefined as a unit: the caller named none that is
   * known.
   */
  readonly limit?: { readonly requestsPerUnit: number; readonly unit: Unit | undefined } | undefined
}

export interface Entry {
  readonly key: string
  readonly value: string
}

export interface Decision {
  readonly over: boolean
  /** One for each descriptor, in the request's order. */
  readonly statuses: readonly DescriptorDecision[]
  /** For the proxy to add to its answer; where they are asked for. */
  readonly headers?: readonly ResponseHeader[]
  /** For the proxy's own filters; where it is asked for. */
  readonly metadata?: JsonObject
}

export interface ResponseHeader {
  readonly key: string
  readonly value: string
}

export interface DescriptorDecision {
  readonly over: boolean
  readonly remaining: number
  /** undefined when no limit matched, or an unlimited one. */
  readonly limit?: {
    readonly name: string
    readonly requestsPerUnit: number
    readonly unit: Unit
    /** Whole seconds until the window ends, at least 1. */
    readonly resetSeconds: number
  }
}

/** The call cannot be answered; `invalid` when the request itself is at fault. */
export class RequestError extends ExpectedError {
  override readonly name = 'RequestError'
  readonly invalid: boolean

  constructor(message: string, invalid: boolean) {
    super(message)
    this.invalid = invalid
  }
}
