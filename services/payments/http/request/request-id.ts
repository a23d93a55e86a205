import { newId, type RandomBytes } from '../../domain/ids.ts'
import { hasValidCheckDigit } from '../../domain/merchant/card-number.ts'

const sane = /^[A-Za-z0-9._~:+/=@-]{1,128}$/
const longNumber = /(?:\d-?){13,}/g
const maxCardDigits = 19

/**
 * Returns the id for the log and the answer of a request: the caller's `x-request-id` if it is valid, else a
 * new one. A text that could be a card number is not valid, because it must not get into a log.
 */
export function requestIdOf(given: unknown, nowMs: number, random: RandomBytes): string {
  if (typeof given === 'string' && sane.test(given) && !hasCardNumber(given)) return given
  return newId(nowMs, random)
}

function hasCardNumber(text: string): boolean {
  const numbers = [...text.matchAll(longNumber)].map(([found]) => found.replaceAll('-', ''))
  return numbers.some(number => number.length > maxCardDigits || hasValidCheckDigit(number))
}
