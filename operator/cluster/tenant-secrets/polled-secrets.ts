import { isDeepStrictEqual } from 'node:util'
import { createWorkQueue, type Outcome } from '../../controller/work-queue.ts'
import { SecretForbiddenError } from '../../sources/secret-forbidden.ts'
import { hashTokens, type TokenPlace, type TokenSecrets, type Tokens } from '../../sources/token-secrets.ts'
import type { ReadPace } from './read-pace.ts'

export interface PolledSecretsOptions {
  /**
   * Resolves with the entries of a Secret; undefined when it does not exist. Rejects with a `SecretForbiddenError`
   * when the operator may not read it.
   */
  readonly read: (
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, string>> | undefined>
  readonly pace: ReadPace
  /** Called when a Secret cannot be read, and again when the reason changes. */
  readonly onError: (secret: string, error: Error) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing?: Partial<PolledSecretsTiming>
}

export interface PolledSecretsTiming {
  /** The shortest time between two reads of a Secret. */
  readonly lookMs: number
  /** The wait before a failed read is repeated the first time; it grows up to `lookMs`. */
  readonly retryMs: number
  /** A read that takes longer has failed. */
  readonly readMs: number
  /** How long `follow` waits for Secrets that were never read. */
  readonly patienceMs: number
}

const defaultTiming: PolledSecretsTiming = {
  lookMs: 30_000,
  retryMs: 500,
  readMs: 5_000,
  patienceMs: 5_000,
}

/** Reads at the same time. */
const concurrency = 4
const unknown: Tokens = { unknown: true }

/** One Secret, and the tokens of those of its entries that resources name. */
interface Followed {
  readonly namespace: string
  readonly name: string
  keys: ReadonlySet<string>
  tokens: ReadonlyMap<string, Tokens>
  /** Why it could not be read the last time. */
  problem: string
  isReading: boolean
}

/**
 * Secrets of an API server, each read by its name once, however many resources name it: at once when a resource
 * names it first, and then at the pace of reads, 30 seconds apart at least. The operator neither lists nor watches
 * Secrets. Known tokens stay valid while their Secret cannot be read.
 */
export function createPolledSecrets(options: PolledSecretsOptions): TokenSecrets & { stop(): Promise<void> } {
  const { pace, random } = options
  const { lookMs, retryMs, readMs, patienceMs } = { ...defaultTiming, ...options.timing }
  const followed = new Map<string, Followed>()
  const listeners: (() => void)[] = []
  const waiting = new Set<() => void>()
  const stopping = new AbortController()

  const queue = createWorkQueue({
    concurrency,
    random,
    retries: { initialMs: retryMs, maxMs: Math.max(retryMs, lookMs) },
    async reconcile(id): Promise<Outcome> {
      const secret = followed.get(id)
      if (secret === undefined || stopping.signal.aborted) return 'done'
      try {
        await read(secret)
      } finally {
        if (!isAnyUnread()) for (const resolve of waiting) resolve()
      }
      // A Secret that was dropped meanwhile reserves nothing.
      return followed.get(id) === secret ? { afterMs: pace.reserve(id, { atLeastMs: lookMs }) } : 'done'
    },
    onError() {},
  })

  async function read(secret: Followed): Promise<void> {
    const { namespace, name } = secret
    const id = `${namespace}/${name}`
    secret.isReading = true
    try {
      const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(readMs)])
      const entries = await options.read(namespace, name, signal)
      secret.problem = ''
      learn(secret, key => hashTokens(entries, { key }))
    } catch (error) {
      if (stopping.signal.aborted) return
      const { message } = error as Error
      if (message !== secret.problem) options.onError(id, error as Error)
      secret.problem = message
      if (!(error instanceof SecretForbiddenError)) {
        throw Object.assign(new Error(message), { retryAfterMs: pace.reserve(id, { atLeastMs: 0 }) })
      }
      const { advice: forbidden } = error
      learn(secret, key => ({ ...hashesOf(secret.tokens.get(key)), forbidden }))
    } finally {
      secret.isReading = false
    }
  }

  /** Equal tokens keep their object, and listeners are called only after a change. */
  function learn(secret: Followed, tokensOf: (key: string) => Tokens): void {
    let isOther = false
    const tokens = Array.from(secret.keys, (key): [string, Tokens] => {
      const [before, now] = [secret.tokens.get(key), tokensOf(key)]
      if (before !== undefined && isDeepStrictEqual(before, now)) return [key, before]
      isOther = true
      return [key, now]
    })
    secret.tokens = new Map(tokens)
    if (isOther) for (const listener of listeners) listener()
  }

  const isAnyUnread = () => [...followed.values()].some(isUnread)

  function unfollowAllBut(ids: ReadonlyMap<string, unknown>): void {
    for (const id of followed.keys()) {
      if (ids.has(id)) continue
      followed.delete(id)
      pace.release(id)
    }
  }

  return {
    async follow(places) {
      const bySecret = Map.groupBy(places, ({ namespace, secret }) => `${namespace}/${secret}`)
      unfollowAllBut(bySecret)
      for (const [id, [first, ...others]] of bySecret) {
        if (first === undefined) continue
        const known = followed.get(id) ?? neverRead(first)
        known.keys = new Set([first, ...others].map(({ key }) => key))
        followed.set(id, known)
        // The time of the next try after a failed read is fixed already.
        if (isUnread(known) && known.problem === '' && !known.isReading) queue.add(id)
      }
      if (!isAnyUnread()) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const patience = setTimeout(resolve, patienceMs)
      waiting.add(resolve)
      await promise
      waiting.delete(resolve)
      clearTimeout(patience)
    },
    tokens: ({ namespace, secret, key }) =>
      followed.get(`${namespace}/${secret}`)?.tokens.get(key) ?? unknown,
    onChange: listener => void listeners.push(listener),
    async stop() {
      stopping.abort()
      for (const resolve of waiting) resolve()
      await queue.stop()
    },
  }
}

function neverRead({ namespace, secret: name }: TokenPlace): Followed {
  return { namespace, name, keys: new Set(), tokens: new Map(), problem: '', isReading: false }
}

/** Whether an entry that a resource names was never read. */
function isUnread({ keys, tokens }: Followed): boolean {
  return [...keys].some(key => !tokens.has(key))
}

function hashesOf(tokens: Tokens | undefined): { readonly hashes?: readonly Uint8Array[] } {
  return tokens !== undefined && 'hashes' in tokens ? { hashes: tokens.hashes } : {}
}
