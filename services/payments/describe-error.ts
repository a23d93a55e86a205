const longNumber = /\d(?:[ -]?\d){11,}/g

/** Returns the error with its stack. Replaces numbers of 12 digits or more, which could be card numbers. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return text.replace(longNumber, '(a long number)')
}
