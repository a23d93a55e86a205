import type { RequestHead } from './head-memory.ts'
import { fieldValue, isFieldName, lineFeed } from './octets.ts'

/** A request as its handler sees it. Its memory is its own: it may be kept. */
export interface Http1Request {
  /** In upper case: `POST`, `GET`, … */
  readonly method: string
  /** As it was sent: mostly a path with its query, at times with scheme and host before it, or `*`. */
  readonly target: string
  /** The target's path, without scheme, host and query, as it was sent; nothing is decoded. */
  readonly path: string
  /** Empty when there is none. */
  readonly body: Buffer
  /**
   * The value of a header, each octet as a character. Several lines of that name are one, joined by `, `
   * (RFC 9110, 5.3).
   *
   * @param name in lower case
   */
  header(name: string): string | undefined
}

const noBody = Buffer.alloc(0)
/** Between a request's path and what may follow. */
const pathEnd = /[?#]/

/**
 * A request that was read. Of its headers only what the connection must know is read at once; the others stay
 * as octets until somebody asks for them.
 */
export class ParsedRequest implements Http1Request {
  readonly head: RequestHead
  body: Buffer = noBody
  readonly #bytes: Buffer
  readonly #start: number

  /** The head begins at `start`, was checked, and is not written to again. */
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

/** Where the path or query of a target with a scheme begins (RFC 9112, 3.2.2). */
function pathStart(target: string): number {
  const authority = target.indexOf('://') + 3
  const length = target.slice(authority).search(/[/?#]/)
  return length === -1 ? target.length : authority + length
}
