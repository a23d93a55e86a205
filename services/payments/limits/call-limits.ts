/** The rules that limit calls of the API. The rate limit service knows these names as descriptor keys. */
export const callRules = ['address', 'key', 'failed_key'] as const
export type CallRule = (typeof callRules)[number]

/** The calls a minute that one value of each rule may make. */
export type CallsPerMinute = Readonly<Record<CallRule, number>>

export interface CallHit {
  readonly rule: CallRule
  /** Calls with the same value share a counter. Never an API key itself. */
  readonly value: string
}

/** The rule that refuses a call, and the wait before a retry. */
export interface CallRefusal {
  readonly rule: CallRule
  /** The time is above zero. */
  readonly waitMs: number
}

/** Limits the calls of the API. */
export interface CallLimits {
  /** Counts one hit of each. Resolves with a refusal when a hit is over its limit. Never rejects. */
  take(hits: readonly CallHit[]): Promise<CallRefusal | null>
  close(): void
}
