import { newId, type RandomBytes } from '../../domain/ids.ts'
import { hasValidCheckDigit } from '../../domain/merchant/card-number.ts'

const sane = /^[A-Za-z0-9._~:+/=@-]{1,128}$/
const longNumber = /(?:\d-?){13,}/g
const maxCardDigits = 19

/**
 * The id under which a request is logged and answered: the caller's `x-request-id` where it is one, else a
 * new one. What could be a card number is none, for it must not get into a log.
 */
export function requestIdOf(given: unknown, nowMs: number, random: RandomBytes): string {
  if (typeof given === 'string' && sane.test(given) && !hasCardNumber(given)) return given
  return newId(nowMs, random)
}

function hasCardNumber(text: string): boolean {
  const numbers = [...text.matchAll(longNumber)].map(([found]) => found.replaceAll('-', ''))
  return numbers.some(number => number.length > maxCardDigits || hasValidCheckDigit(number))
}
