import { hash } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { ApiCaller, CallerAuthentication, RightScope } from '../../../api/access.ts'
import type { ApiRight } from '../../../api/endpoints.ts'
import { ApiError } from '../../../api/errors.ts'
import { KubeApiError } from '../api/api-error.ts'
import type { KubeClient } from '../api/client.ts'

interface ReviewedAccessOptions {
  readonly client: Pick<KubeClient, 'review'>
  readonly clock: Clock
  readonly limits?: Partial<ReviewCacheLimits>
}

/** Revoked tokens and withdrawn rights stay valid for at most `keepMs`. */
const defaultReviewLimits: ReviewCacheLimits = { keepMs: 10_000, maxEntries: 5_000, maxRunning: 32 }

const tokenReviews = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'tokenreviews',
  namespaced: false,
}
const accessReviews = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  namespaced: false,
}
const reviewMs = 5_000
const maxTokenBytes = 16 * 1024

interface User {
  readonly username: string
  readonly uid?: string | undefined
  readonly groups?: readonly string[]
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

/**
 * Authenticates the users of a cluster: the API server verifies the bearer token of each call (TokenReview)
 * and the user's right (SubjectAccessReview). Only hashes of tokens are kept.
 */
export function reviewedAccess({ client, clock, limits }: ReviewedAccessOptions): CallerAuthentication {
  const cacheLimits = { ...defaultReviewLimits, ...limits }
  const users = createReviewCache<User | undefined>(clock, cacheLimits, tooMany)
  const rights = createReviewCache<boolean>(clock, cacheLimits, tooMany)

  async function review(resource: typeof tokenReviews, kind: string, spec: object) {
    const body = { apiVersion: `${resource.group}/${resource.version}`, kind, spec }
    try {
      const { status } = await client.review(resource, body, { signal: AbortSignal.timeout(reviewMs) })
      return isObject(status) ? status : {}
    } catch (error) {
      throw unavailable(kind, error)
    }
  }

  async function reviewToken(token: string): Promise<User | undefined> {
    const status = await review(tokenReviews, 'TokenReview', { token })
    const { authenticated, user } = status
    if (authenticated !== true || !isObject(user)) return undefined
    return typeof user['username'] === 'string' ? (user as unknown as User) : undefined
  }

  async function isAllowed(user: User, right: ApiRight, scope: RightScope): Promise<boolean> {
    const [resource, subresource] = right.resource.split('/')
    const { username, uid, groups = [], extra = {} } = user
    const status = await review(accessReviews, 'SubjectAccessReview', {
      user: username,
      uid,
      groups,
      extra,
      resourceAttributes: {
        group: apiGroup,
        verb: right.verb,
        resource,
        subresource,
        ...(scope.namespace !== undefined && { namespace: scope.namespace }),
        ...(scope.name !== undefined && { name: scope.name }),
      },
    })
    return status['allowed'] === true && status['denied'] !== true
  }

  return {
    async authenticate(request) {
      const token = readBearerToken(request.headers.authorization)
      const user = await users.get(hash('sha256', token, 'hex'), () => reviewToken(token))
      if (user === undefined) throw unauthenticated('the bearer token is not valid, or has expired')
      return { ...toCaller(user), token }
    },
  }

  function toCaller(user: User): ApiCaller {
    return {
      name: user.username,
      async authorize(right, scope) {
        const key = hash('sha256', JSON.stringify([user, right, scope.namespace, scope.name]), 'hex')
        if (await rights.get(key, () => isAllowed(user, right, scope))) return
        const message = `${user.username} may not ${right.verb} ${right.resource} of ${apiGroup}`
        throw new ApiError('forbidden', `${message} ${describeScope(scope)}`)
      },
    }
  }
}

function describeScope({ domain, namespace }: RightScope): string {
  if (domain !== undefined) return `where the domain ${JSON.stringify(domain)} belongs`
  return namespace === undefined ? 'in all namespaces' : `in the namespace ${namespace}`
}

/** @throws ApiError with 401; it contains nothing of the header */
function readBearerToken(header: string | undefined): string {
  if (header === undefined)
    throw unauthenticated('missing bearer token; expected Authorization: Bearer TOKEN')
  const [, token = ''] = /^Bearer +([\x21-\x7e]+)$/i.exec(header) ?? []
  if (token !== '' && token.length <= maxTokenBytes) return token
  throw unauthenticated('the header Authorization is not allowed; expected Bearer TOKEN')
}

const unauthenticated = (message: string) =>
  new ApiError('unauthenticated', message, { headers: { 'www-authenticate': 'Bearer' } })

const tooMany = () =>
  new ApiError('reviews-failed', 'too many tokens and rights are being verified', {
    headers: { 'retry-after': '1' },
  })

/** Leaves out the API server's text, because it might quote the token. */
function unavailable(kind: string, error: unknown): ApiError {
  const cause = error instanceof KubeApiError ? `${error.code} ${error.reason}` : (error as Error).name
  return new ApiError('reviews-failed', `the API server did not answer a ${kind}: ${cause}`, {
    headers: { 'retry-after': '1' },
  })
}

interface ReviewCacheLimits {
  /** How long the answer to a review is used. */
  readonly keepMs: number
  /** At most this many answers are kept; the oldest are dropped first. */
  readonly maxEntries: number
  readonly maxRunning: number
}

/** @param tooMany returns the error for a review beyond `maxRunning` */
export function createReviewCache<Answer>(
  clock: Clock,
  { keepMs, maxEntries, maxRunning }: ReviewCacheLimits,
  tooMany: () => Error,
) {
  const answers = new Map<string, { readonly atMs: number; readonly answer: Promise<Answer> }>()
  let running = 0

  async function review(key: string, ask: () => Promise<Answer>): Promise<Answer> {
    running += 1
    try {
      return await ask()
    } catch (error) {
      answers.delete(key)
      throw error
    } finally {
      running -= 1
    }
  }

  return {
    /**
     * Resolves with the cached or new answer. Rejects as `ask` does, or with the error of `tooMany`; errors
     * are not cached.
     */
    async get(key: string, ask: () => Promise<Answer>): Promise<Answer> {
      const nowMs = clock.monotonicMs()
      const known = answers.get(key)
      if (known !== undefined && nowMs - known.atMs < keepMs) return known.answer
      if (running >= maxRunning) throw tooMany()
      const answer = review(key, ask)
      answers.delete(key)
      answers.set(key, { atMs: nowMs, answer })
      const oldest = answers.keys().next()
      if (answers.size > maxEntries && !oldest.done) answers.delete(oldest.value)
      return await answer
    },
  }
}
