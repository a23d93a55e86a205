import { type ReconcileOutcome, WorkQueue } from '../../../controller/work-queue.ts'
import type {
  RouteSecrets,
  SecretReference,
  SigningSecrets,
  Tokens,
} from '../../../kinds/animation-stream-route/route-secrets.ts'
import { SecretForbiddenError } from '../../../kinds/source.ts'
import { FollowedSecret, type SecretEntries, type SecretUse } from './followed-secret.ts'
import type { ReadRateLimiter } from './read-rate-limiter.ts'

interface PolledSecretsOptions {
  /**
   * Resolves with the entries of a Secret; undefined if it does not exist. Rejects with a
   * `SecretForbiddenError` if the operator may not read it.
   */
  readonly read: (namespace: string, name: string, signal: AbortSignal) => Promise<SecretEntries>
  readonly rateLimiter: ReadRateLimiter
  /** Called when a Secret cannot be read, once for each new reason. */
  readonly onError: (secret: string, error: Error) => void
  readonly random: () => number
  readonly timing?: Partial<PolledSecretsTiming>
}

interface PolledSecretsTiming {
  /** The shortest time between two reads of a Secret. */
  readonly pollMs: number
  /** The first wait after a failed read. Later waits grow up to `pollMs`. */
  readonly retryMs: number
  readonly readMs: number
  /** How long `follow` waits for Secrets that were never read. */
  readonly firstReadsMs: number
}

const defaultTiming: PolledSecretsTiming = {
  pollMs: 30_000,
  retryMs: 500,
  readMs: 5_000,
  firstReadsMs: 5_000,
}

const concurrency = 4
const unknown = { unknown: true } as const

/**
 * Polls Secrets of an API server. Each is read by its name, once for all resources that name it: at once when
 * a resource first names it, then at the rate of `ReadRateLimiter`, and at most every `pollMs`. The operator
 * neither lists nor watches Secrets. Known values stay valid while their Secret cannot be read.
 */
export class PolledSecrets implements RouteSecrets {
  readonly #options: PolledSecretsOptions
  readonly #timing: PolledSecretsTiming
  readonly #followed = new Map<string, FollowedSecret>()
  readonly #listeners: (() => void)[] = []
  /** The calls of `follow` that wait for first reads. */
  readonly #waiting = new Set<() => void>()
  readonly #stopping = new AbortController()
  readonly #queue: WorkQueue

  constructor(options: PolledSecretsOptions) {
    this.#options = options
    this.#timing = { ...defaultTiming, ...options.timing }
    const { retryMs: initialMs, pollMs } = this.#timing
    this.#queue = new WorkQueue({
      concurrency,
      random: options.random,
      retries: { initialMs, maxMs: Math.max(initialMs, pollMs) },
      reconcile: id => this.#reconcile(id),
      onError() {},
    })
  }

  async follow(tokens: readonly SecretReference[], signing: readonly SecretReference[] = []): Promise<void> {
    const references = [...toUses('tokens', tokens), ...toUses('signing', signing)]
    const bySecret = Map.groupBy(references, toSecretId)
    this.#unfollowAllBut(bySecret)
    for (const [id, ofSecret] of bySecret) {
      const secret = this.#followed.get(id) ?? new FollowedSecret()
      secret.setUses(ofSecret)
      this.#followed.set(id, secret)
      // After a failed read, the next attempt is already scheduled.
      if (secret.isUnread && secret.problem === '' && !secret.isReading) this.#queue.add(id)
    }
    if (this.#isAnyUnread()) await this.#firstReads()
  }

  tokens(reference: SecretReference): Tokens {
    return (
      (this.#followed.get(toSecretId(reference))?.find(reference, 'tokens') as Tokens | undefined) ?? unknown
    )
  }

  signing(reference: SecretReference): SigningSecrets {
    const values = this.#followed.get(toSecretId(reference))?.find(reference, 'signing')
    return (values as SigningSecrets | undefined) ?? unknown
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#endWaits()
    await this.#queue.stop()
  }

  #unfollowAllBut(ids: Pick<ReadonlyMap<string, unknown>, 'has'>): void {
    for (const id of this.#followed.keys()) {
      if (ids.has(id)) continue
      this.#followed.delete(id)
      this.#options.rateLimiter.release(id)
    }
  }

  #isAnyUnread(): boolean {
    return [...this.#followed.values()].some(({ isUnread }) => isUnread)
  }

  /** Resolves when each followed Secret has been read once, or after `firstReadsMs`. */
  async #firstReads(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, this.#timing.firstReadsMs)
    this.#waiting.add(resolve)
    await promise
    this.#waiting.delete(resolve)
    clearTimeout(timer)
  }

  #endWaits(): void {
    for (const resolve of this.#waiting) resolve()
  }

  async #reconcile(id: string): Promise<ReconcileOutcome> {
    const secret = this.#followed.get(id)
    if (secret === undefined || this.#stopping.signal.aborted) return 'done'
    try {
      await this.#read(id, secret)
    } finally {
      if (!this.#isAnyUnread()) this.#endWaits()
    }
    // No reads are reserved for a Secret that is no longer followed.
    if (this.#followed.get(id) !== secret) return 'done'
    return { afterMs: this.#options.rateLimiter.reserve(id, { atLeastMs: this.#timing.pollMs }) }
  }

  async #read(id: string, secret: FollowedSecret): Promise<void> {
    const { read, rateLimiter, onError } = this.#options
    const [namespace = '', name = ''] = id.split('/')
    secret.isReading = true
    try {
      const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(this.#timing.readMs)])
      const entries = await read(namespace, name, signal)
      secret.problem = ''
      this.#notifyIf(secret.setEntries(entries))
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      const { message } = error as Error
      if (message !== secret.problem) onError(id, error as Error)
      secret.problem = message
      if (!(error instanceof SecretForbiddenError)) {
        throw Object.assign(new Error(message), { retryAfterMs: rateLimiter.reserve(id, { atLeastMs: 0 }) })
      }
      this.#notifyIf(secret.setForbidden(error.advice))
    } finally {
      secret.isReading = false
    }
  }

  #notifyIf(hasChanged: boolean): void {
    if (hasChanged) for (const listener of this.#listeners) listener()
  }
}

const toSecretId = ({ namespace, secret }: SecretReference) => `${namespace}/${secret}`

const toUses = (use: SecretUse['use'], references: readonly SecretReference[]) =>
  references.map(reference => ({ ...reference, use }))
