import type { RequestHead } from './header-cache.ts'
import { fieldValue, isFieldName, lineFeed } from './octets.ts'

/** A request for a handler. It owns its memory, so it may be kept. */
export interface Http1Request {
  /** The method in upper case: `POST`, `GET`, … */
  readonly method: string
  /** The target as it was sent: usually a path with its query, sometimes with scheme and host, or `*`. */
  readonly target: string
  /** The target's path, without scheme, host and query, as sent and not decoded. */
  readonly path: string
  /** Empty when there is none. */
  readonly body: Buffer
  /**
   * Returns the value of a header, each octet as a character. Several lines with the name are joined by `, `
   * (RFC 9110, 5.3).
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
}

const noBody = Buffer.alloc(0)
/** The end of a request's path. */
const pathEnd = /[?#]/

/**
 * A parsed request. Only the headers that the connection needs are parsed at once; the others stay octets
 * until they are read.
 */
export class ParsedRequest implements Http1Request {
  readonly head: RequestHead
  body: Buffer = noBody
  readonly #bytes: Buffer
  readonly #start: number

  /** The head begins at `start`, was validated, and is not overwritten. */
  constructor(head: RequestHead, bytes: Buffer, start: number) {
    this.head = head
    this.#bytes = bytes
    this.#start = start
  }

  get method(): string {
    return this.head.method
  }

  get target(): string {
    return this.head.target
  }

  get path(): string {
    const { target } = this.head
    const start = target.startsWith('/') || target === '*' ? 0 : pathStart(target)
    const rest = start === 0 ? target : target.slice(start)
    const end = rest.search(pathEnd)
    if (end === -1) return rest || '/'
    return rest.slice(0, end) || '/'
  }

  header(name: string): string | undefined {
    const bytes = this.#bytes
    let found: string | undefined
    let line = this.#start + this.head.fieldsStart
    const end = this.#start + this.head.bodyStart - 2
    while (line < end) {
      const next = bytes.indexOf(lineFeed, line) + 1
      if (isFieldName(bytes, line, name)) {
        const value = fieldValue(bytes, line + name.length + 1, next - 2)
        found = found === undefined ? value : `${found}, ${value}`
      }
      line = next
    }
    return found
  }
}

/** Returns the index of the path or query in a target with a scheme (RFC 9112, 3.2.2). */
function pathStart(target: string): number {
  const authority = target.indexOf('://') + 3
  const length = target.slice(authority).search(/[/?#]/)
  return length === -1 ? target.length : authority + length
}
