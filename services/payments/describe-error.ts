import { withoutLongNumbers } from './domain/card.ts'

/** Returns the error with its stack, for the log. */
export function describeError(error: unknown): string {
  return withoutLongNumbers(error instanceof Error ? (error.stack ?? error.message) : String(error))
}
