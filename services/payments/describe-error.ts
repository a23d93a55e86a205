const longNumber = /\d(?:[ -]?\d){11,}/g

/** Returns an error with its stack for the log. Numbers that could be card numbers are removed. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return text.replace(longNumber, '(a long number)')
}
