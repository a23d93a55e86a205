import { createHash, randomBytes } from 'node:crypto'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Resumption } from '../stream-log/stream-log.ts'
import { type AnimationIds, idsKey } from '../wire/animation-ids.ts'
import type { TokenHash } from './admission.ts'

/**
 * The name of the metadata in which the response gives a producer its resume token, and the producer sends it
 * back.
 */
export const resumeMetadata = 'tollway-resume'
/**
 * The name of the metadata of the response with the number of the message that the producer must send next.
 * The header is message 0.
 */
export const nextMetadata = 'tollway-next'

const secretBytes = 32
const tokenForm = /^([\w.-]{1,100})\.(\d{1,9})\.([\w-]{43})$/

export const newSecret = (): string => randomBytes(secretBytes).toString('base64url')

/** A hash of the secret and the bearer token: both are needed to continue the request. */
export function hashSecret(secret: string, bearer: TokenHash): string {
  return createHash('sha256')
    .update(secret)
    .update(bearer ?? '')
    .digest('hex')
}

/**
 * Returns a hash by which a producer is recognized: nobody else can replace its lost request. Empty without a
 * bearer token. It includes the ids, so that two requests of a producer have different hashes.
 */
export function hashProducer(ids: AnimationIds, bearer: TokenHash): string {
  if (bearer === undefined) return ''
  return createHash('sha256').update(idsKey(ids)).update(bearer).digest('hex')
}

/** Returns `<run>.<uses>.<secret>`; `uses` is the number of earlier continuations. */
export const formatToken = (run: string, uses: number, secret: string): string => `${run}.${uses}.${secret}`

/**
 * Returns undefined for a push that begins a request.
 *
 * @throws GrpcError INVALID_ARGUMENT for a malformed token
 */
export function readResumeToken(metadata: Metadata): ResumeToken | undefined {
  const values = metadata.get(resumeMetadata)
  if (values === undefined) return undefined
  const [value] = values
  const [, run, uses, secret] = (typeof value === 'string' && tokenForm.exec(value)) || []
  if (run === undefined || secret === undefined || values.length > 1) {
    throw new GrpcError(
      'INVALID_ARGUMENT',
      `${resumeMetadata}: one token that the broker has answered is allowed`,
    )
  }
  return { run, uses: Number(uses), secret }
}

export interface ResumeToken {
  readonly run: string
  readonly uses: number
  readonly secret: string
}

export interface PresentedToken extends ResumeToken {
  readonly bearer: TokenHash
}

export function toResumption(presented: PresentedToken, nextSecret: string): Resumption {
  const { run, uses, secret, bearer } = presented
  return {
    run,
    uses,
    tokenHash: hashSecret(secret, bearer),
    nextTokenHash: hashSecret(nextSecret, bearer),
  }
}
