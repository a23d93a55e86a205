/** The limits of calls of the API. The rate limit service knows these names as descriptor keys. */
export const callRules = ['address', 'key', 'failed_key'] as const
export type CallRule = (typeof callRules)[number]

/** How many calls a minute one value of each rule may make. */
export type CallsPerMinute = Readonly<Record<CallRule, number>>

export interface CallHit {
  readonly rule: CallRule
  /** Whose calls are counted together. Never an API key itself. */
  readonly value: string
}

/** Why a call is refused, and for how long. */
export interface CallRefusal {
  readonly rule: CallRule
  /** Above zero. */
  readonly waitMs: number
}

/** Limits the calls of the API. */
export interface CallLimits {
  /** Counts one hit of each. Resolves with a refusal when one of them is over its limit. Never rejects. */
  take(hits: readonly CallHit[]): Promise<CallRefusal | null>
  close(): void
}
