import { createHash } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import { hashBearer, includesHash } from '../streams/admission.ts'

const maxFileBytes = 64 * 1024
const maxTokens = 100
const minCharacters = 16
const maxCharacters = 512
/** A changed file takes effect after this time. */
const readEveryMs = 1_000
/** The form of a token: `b64token` of RFC 6750, section 2.1. */
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/

/**
 * A file with one token a line; empty lines and those that begin with `#` are ignored. It is read again at
 * most once a second. While it is missing or invalid, no token is accepted: a removed token must not stay
 * valid.
 */
export class AdminTokens {
  readonly #path: string
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #onProblem: (reason: string) => void
  #hashes: readonly Uint8Array[] = []
  #readMs = Number.NEGATIVE_INFINITY
  #warned = ''

  /**
   * @param onProblem called when a changed file is missing or invalid, once for each reason in a row, which
   *   quotes nothing of the file
   * @throws Error with the setting, the path and the reason, if the file is missing or invalid
   */
  constructor(path: string, clock: Pick<Clock, 'monotonicMs'>, onProblem: (reason: string) => void) {
    this.#path = path
    this.#clock = clock
    this.#onProblem = onProblem
    this.#read()
  }

  /** Returns `unusable` if the file has no valid tokens at the moment. */
  check(authorization: string | undefined): 'accepted' | 'rejected' | 'unusable' {
    this.#readAgain()
    if (this.#hashes.length === 0) return 'unusable'
    return includesHash(this.#hashes, hashBearer(authorization)) ? 'accepted' : 'rejected'
  }

  #read(): void {
    this.#readMs = this.#clock.monotonicMs()
    try {
      this.#hashes = parseTokens(readBoundedFile(this.#path, maxFileBytes).toString('utf8'))
    } catch (error) {
      this.#hashes = []
      throw new Error(`ADMIN_TOKEN_FILE: ${this.#path}: ${(error as Error).message}`, { cause: error })
    }
  }

  #readAgain(): void {
    if (this.#clock.monotonicMs() - this.#readMs < readEveryMs) return
    try {
      this.#read()
      this.#warned = ''
    } catch (error) {
      const { message } = error as Error
      if (message !== this.#warned) this.#onProblem(message)
      this.#warned = message
    }
  }
}

/** @throws Error that names the line, and quotes nothing of it */
function parseTokens(text: string): readonly Uint8Array[] {
  const tokens = text.split('\n').flatMap((line, index) => {
    const token = line.trim()
    if (token === '' || token.startsWith('#')) return []
    const problem = findProblem(token)
    if (problem !== undefined) throw new Error(`line ${index + 1}: ${problem}`)
    return [createHash('sha256').update(token).digest()]
  })
  if (tokens.length === 0) throw new Error('expected one token a line, got none')
  if (tokens.length > maxTokens) {
    throw new Error(`expected at most ${maxTokens} tokens, got ${tokens.length}`)
  }
  return tokens
}

function findProblem(token: string): string | undefined {
  if (token.length < minCharacters || token.length > maxCharacters) {
    return `expected a token of ${minCharacters} to ${maxCharacters} characters, got ${token.length}`
  }
  return tokenForm.test(token)
    ? undefined
    : 'expected a token of letters, digits and - . _ ~ + / with = only at its end'
}
