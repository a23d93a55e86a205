import { timingSafeEqual } from 'node:crypto'
import { LogRefusal, type Resumption } from './stream-log.ts'

/** The resume tokens of one request, as hashes. */
export interface ResumeState {
  readonly tokenHash: string
  /** The previous token, until the first entry after its use: its user may not have received the next one. */
  readonly previousHash?: string
  /** The number of continuations of the request. */
  readonly uses: number
}

/**
 * Returns the state after the use of a token.
 *
 * @param state undefined for a request without tokens
 * @throws LogRefusal `spent` for a token of an earlier use, `forged` for any other invalid token
 */
export function useToken(state: ResumeState | undefined, resumption: Resumption): ResumeState {
  const { tokenHash, nextTokenHash, uses } = resumption
  if (state === undefined) throw forged()
  if (isEqual(state.tokenHash, tokenHash) || isEqual(state.previousHash, tokenHash)) {
    return { tokenHash: nextTokenHash, previousHash: tokenHash, uses: state.uses + 1 }
  }
  if (uses >= state.uses) throw forged()
  throw new LogRefusal('spent', 'the resume token was used before, and the next one has taken its place')
}

export const ended = (how: string) => new LogRefusal('ended', `the request has ended: ${how}`)

export const runGone = (run: string) =>
  new LogRefusal('gone', `the run ${JSON.stringify(run)} is not kept any more`)

const forged = () =>
  new LogRefusal('forged', 'the resume token is not one of this request and this bearer token')

function isEqual(expected: string | undefined, found: string): boolean {
  if (expected === undefined || expected.length !== found.length) return false
  return timingSafeEqual(Buffer.from(expected), Buffer.from(found))
}
