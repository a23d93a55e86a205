import { METHODS } from '../../net/node-http.ts'
import { Refusal } from '../refusal.ts'
import { carriageReturn, lineFeed, skip, space, targetOctets, tokenOctets } from './octets.ts'

/** CONNECT asks for a tunnel, which is not supported. */
const methods: ReadonlySet<string> = new Set(METHODS.filter(method => method !== 'CONNECT'))
const post = 0x504f_5354
/** `#` matches a digit. */
const versionPattern = 'HTTP/#.#\r\n'
const slash = 0x2f
const urlOrAsterisk = /^(?:\*|https?:\/\/[\w.~%:[\]-]+(?:[/?#].*)?)$/i

/**
 * Parses `METHOD target HTTP/1.x` (RFC 9112, 3), with exactly one space between the parts, as in the
 * standard. `read` may be called again when more bytes have arrived, and continues.
 */
export class RequestLine {
  method = ''
  target = ''
  /** The x of HTTP/1.x: 0 or 1. */
  minorVersion = 1
  /** Offsets from the beginning of the line; 0 for a part that was not reached. */
  #scan = 0
  #target = 0
  #version = 0

  begin(): void {
    this.#scan = 0
    this.#target = 0
    this.#version = 0
  }

  /**
   * Parses the line that begins at `base`; returns the offset after it, or 0 when more bytes are needed.
   *
   * @throws Refusal at the first invalid octet
   */
  read(bytes: Buffer, base: number, end: number, maxTargetBytes: number): number {
    if (this.#target === 0 && !this.#readMethod(bytes, base, end)) return 0
    if (this.#version === 0 && !this.#readTarget(bytes, base, end, maxTargetBytes)) return 0
    return this.#readVersion(bytes, base + this.#version, end)
  }

  #readMethod(bytes: Buffer, base: number, end: number): boolean {
    const at = skip(tokenOctets, bytes, base + this.#scan, end)
    this.#scan = at - base
    if (at >= end) return false
    if (bytes[at] !== space || at === base) throw new Refusal(400, 'the request does not begin with a method')
    this.method = methodOf(bytes, base, at)
    this.#scan += 1
    this.#target = this.#scan
    return true
  }

  #readTarget(bytes: Buffer, base: number, end: number, maxTargetBytes: number): boolean {
    const start = base + this.#target
    const limit = start + maxTargetBytes + 1
    const at = skip(targetOctets, bytes, base + this.#scan, Math.min(end, limit))
    this.#scan = at - base
    if (at === limit) throw new Refusal(414, `the target is longer than ${maxTargetBytes} bytes`)
    if (at >= end) return false
    if (bytes[at] !== space) throw new Refusal(400, 'the target has a character that is not allowed')
    this.target = bytes.toString('latin1', start, at)
    if (bytes[start] !== slash && !urlOrAsterisk.test(this.target)) {
      throw new Refusal(400, 'the target is neither a path, nor a URL of http, nor *')
    }
    this.#version = this.#scan + 1
    return true
  }

  #readVersion(bytes: Buffer, start: number, end: number): number {
    const lineEnd = start + versionPattern.length
    for (let at = start; at < lineEnd; at += 1) {
      if (at >= end) return 0
      const octet = bytes[at] ?? 0
      const expected = versionPattern.charCodeAt(at - start)
      const fits = expected === 0x23 ? octet >= 0x30 && octet <= 0x39 : octet === expected
      if (!fits) throw new Refusal(400, 'the request line does not end with the version of HTTP')
    }
    const minorVersion = (bytes[lineEnd - 3] ?? 0) - 0x30
    if (bytes[start + 5] !== 0x31 || minorVersion > 1) {
      throw new Refusal(505, 'the version is neither HTTP/1.1 nor HTTP/1.0')
    }
    this.minorVersion = minorVersion
    return lineEnd
  }
}

function methodOf(bytes: Buffer, start: number, end: number): string {
  if (end - start === 4 && bytes.readUInt32BE(start) === post) return 'POST'
  const method = bytes.toString('latin1', start, end)
  if (methods.has(method)) return method
  throw new Refusal(501, 'the method is not supported')
}

/**
 * Returns whether an empty line begins at the index. Servers ignore empty lines before a request (RFC 9112,
 * 2.2).
 */
export function isEmptyLine(bytes: Buffer, at: number): boolean {
  return bytes[at] === carriageReturn && bytes[at + 1] === lineFeed
}
