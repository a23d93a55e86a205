const pattern = /^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/

/** Converts an IBAN in groups and small letters to its stored form. */
export function normaliseIban(text: string): string {
  return text.replaceAll(' ', '').toUpperCase()
}

/**
 * Whether a normalised text has the form of ISO 13616 and its check digits are right (ISO 7064, mod 97-10).
 */
export function isIban(iban: string): boolean {
  if (!pattern.test(iban)) return false
  const rearranged = iban.slice(4) + iban.slice(0, 4)
  // A letter stands for two digits, A for 10 to Z for 35.
  const digits = [...rearranged].map(character => Number.parseInt(character, 36)).join('')
  return BigInt(digits) % 97n === 1n
}
