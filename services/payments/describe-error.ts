const longNumber = /\d(?:[ -]?\d){11,}/g

/** An error, with its stack, for the log. What could be a card number in it is left out. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return text.replace(longNumber, '(a long number)')
}
