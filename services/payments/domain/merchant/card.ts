/** The known details of a card. Only the processor has the number and the verification code. */
export interface CardDetails {
  /** The first 6 digits of the number. */
  readonly bin: string
  readonly last4: string
  readonly expiry: CardExpiry
  readonly scheme: CardScheme
}

export const cardSchemes = ['visa', 'mastercard'] as const
export type CardScheme = (typeof cardSchemes)[number]

export interface CardExpiry {
  readonly year: number
  /** 1 to 12. */
  readonly month: number
}

/** The processor's reference of a card. It allows a further payment and does not contain the number. */
export interface CardReference {
  readonly token: string
  /** Equal for equal numbers, by a keyed hash. */
  readonly fingerprint: string
}

/** A card that a merchant saved from one of its transactions. */
export interface SavedCard {
  readonly id: string
  readonly merchantId: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly card: CardDetails
  readonly reference: CardReference
  readonly notes: string | null
}

/** The last millisecond in which a card is valid: the end of its month, in UTC. */
export function expiryMs({ year, month }: CardExpiry): number {
  return Date.UTC(year, month, 1) - 1
}
