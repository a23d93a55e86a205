import { createHash, timingSafeEqual } from 'node:crypto'
import { hasValidCheckDigit } from '../domain/card.ts'
import { newId, type RandomBytes } from '../domain/ids.ts'

const requestIdPattern = /^[A-Za-z0-9._~:+/=@-]{1,128}$/
const longNumber = /(?:\d-?){13,}/g
const maxCardDigits = 19

/**
 * Returns the id of a request, which the log and the answer contain: the caller's `x-request-id` if it is
 * valid, otherwise a new id. An id that could contain a card number is not valid, because it must not get
 * into a log.
 */
export function chooseRequestId(given: unknown, nowMs: number, random: RandomBytes): string {
  if (typeof given === 'string' && requestIdPattern.test(given) && !hasCardNumber(given)) return given
  return newId(nowMs, random)
}

function hasCardNumber(text: string): boolean {
  const numbers = [...text.matchAll(longNumber)].map(([found]) => found.replaceAll('-', ''))
  return numbers.some(number => number.length > maxCardDigits || hasValidCheckDigit(number))
}

const maxRanges = 50

/**
 * Returns whether an Accept header allows the type (RFC 9110, section 12.5.1). A missing header accepts all
 * types.
 */
export function accepts(type: string, accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  return accept
    .split(',', maxRanges)
    .map(range => range.split(';').map(part => part.trim().toLowerCase()))
    .some(([range = '', ...parameters]) => covers(range, type) && !parameters.some(isZeroWeight))
}

function covers(range: string, type: string): boolean {
  return range === type || range === '*/*' || range === `${type.split('/', 1)[0]}/*`
}

function isZeroWeight(parameter: string): boolean {
  return /^q=0(\.0{0,3})?$/.test(parameter)
}

/** Compares hashes in constant time, so that response times reveal nothing about the token (RFC 6750). */
export function hasBearerToken(authorization: string | undefined, token: string): boolean {
  const [, given = ''] = /^bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(given), hash(token))
}

const pattern = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i

/** Returns the password of basic authorization (RFC 7617); null without one, or with a user name. */
export function readApiKey(authorization: string | undefined): string | null {
  const [, encoded] = pattern.exec(authorization ?? '') ?? []
  if (encoded === undefined) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  return text.startsWith(':') && text.length > 1 ? text.slice(1) : null
}
