import { timingSafeEqual } from 'node:crypto'
import { LogRejection, type Resumption } from './stream-log.ts'

/** Hashes of the resume tokens of one request. */
export interface ResumeTokens {
  readonly tokenHash: string
  /**
   * The hash of the previous token. It stays valid until the first entry after its use: the producer may not
   * have received the current token.
   */
  readonly previousHash?: string
  /** How often the request was continued. */
  readonly uses: number
}

/**
 * Returns the tokens after the use.
 *
 * @param tokens undefined for a request without tokens
 * @throws LogRejection `spent` for a token of an earlier use, `forged` for any other invalid token
 */
export function useToken(tokens: ResumeTokens | undefined, resumption: Resumption): ResumeTokens {
  const { tokenHash, nextTokenHash, uses } = resumption
  if (tokens === undefined) throw forged()
  if (isEqual(tokens.tokenHash, tokenHash) || isEqual(tokens.previousHash, tokenHash)) {
    return { tokenHash: nextTokenHash, previousHash: tokenHash, uses: tokens.uses + 1 }
  }
  if (uses >= tokens.uses) throw forged()
  throw new LogRejection('spent', 'the resume token was used before, and the next one has taken its place')
}

const forged = () =>
  new LogRejection('forged', 'the resume token is not one of this request and this bearer token')

function isEqual(expected: string | undefined, found: string): boolean {
  if (expected === undefined || expected.length !== found.length) return false
  return timingSafeEqual(Buffer.from(expected), Buffer.from(found))
}
