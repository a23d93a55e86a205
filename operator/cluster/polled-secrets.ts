import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '@tollway/chassis/clock.ts'
import { hashTokens, type TokenSecrets, type Tokens } from '../sources/token-secrets.ts'

export interface PolledSecretsOptions {
  /**
   * The entries of a Secret; undefined when there is none. Rejects with `code` 403 when it may not be read.
   */
  readonly read: (
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, string>> | undefined>
  readonly clock: Clock
  /** Told when a Secret cannot be read, and again when the reason is another one. */
  readonly onError: (secret: string, error: Error) => void
  readonly timing?: Partial<PolledSecretsTiming>
}

export interface PolledSecretsTiming {
  /** Between two looks at all of them. */
  readonly lookMs: number
  /** Between two looks while there is one that was never read. */
  readonly retryMs: number
  /** A read that takes longer has failed. */
  readonly readMs: number
  /** For how long `follow` waits for those that were never read. */
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
const forbidden: Tokens = { missing: 'may not be read by the operator' }

/** One Secret, and the tokens of those of its entries that are asked for. */
interface Followed {
  readonly namespace: string
  readonly name: string
  keys: ReadonlySet<string>
  tokens: ReadonlyMap<string, Tokens>
  /** Why it could not be read the last time. */
  problem: string
}

/**
 * Secrets of an API server, each read by its name, soon after it is named first and then every 30 seconds: they
 * are never listed or watched. While one cannot be read, what is known of it holds.
 */
export function createPolledSecrets(options: PolledSecretsOptions): TokenSecrets & { stop(): Promise<void> } {
  const { lookMs, retryMs, readMs, patienceMs } = { ...defaultTiming, ...options.timing }
  const followed = new Map<string, Followed>()
  const listeners: (() => void)[] = []
  const waiting = new Set<() => void>()
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let lookedAtAllMs = options.clock.monotonicMs()

  async function read(secret: Followed): Promise<void> {
    const { namespace, name } = secret
    try {
      const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(readMs)])
      const entries = await options.read(namespace, name, signal)
      secret.problem = ''
      learn(secret, key => hashTokens(entries, { key }))
    } catch (error) {
      if (stopping.signal.aborted) return
      const { message, code } = error as Error & { readonly code?: unknown }
      if (message !== secret.problem) options.onError(`${namespace}/${name}`, error as Error)
      secret.problem = message
      if (code === 403) learn(secret, key => secret.tokens.get(key) ?? forbidden)
    }
  }

  /** The same objects stay where nothing has changed, and then nobody is told. */
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

  /** Never two rounds at a time; never rejects. */
  async function look(secrets: readonly Followed[]): Promise<void> {
    const left = [...secrets]
    const worker = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) await read(next)
    }
    await Promise.all(Array.from({ length: concurrency }, worker))
    looking = undefined
    const unread = [...followed.values()].filter(isUnread)
    if (unread.length === 0) for (const resolve of waiting) resolve()
    const isFresh = unread.some(({ problem }) => problem === '')
    lookIn(isFresh ? 0 : unread.length > 0 ? retryMs : lookMs)
  }

  function lookIn(ms: number): void {
    clearTimeout(timer)
    if (stopping.signal.aborted || looking !== undefined) return
    timer = setTimeout(() => {
      const nowMs = options.clock.monotonicMs()
      const isDue = nowMs - lookedAtAllMs >= lookMs
      if (isDue) lookedAtAllMs = nowMs
      const all = [...followed.values()]
      looking = look(isDue ? all : all.filter(isUnread))
    }, ms)
  }

  return {
    async follow(places) {
      const bySecret = Map.groupBy(places, ({ namespace, secret }) => `${namespace}/${secret}`)
      for (const id of followed.keys()) if (!bySecret.has(id)) followed.delete(id)
      for (const [id, [first, ...others]] of bySecret) {
        if (first === undefined) continue
        const { namespace, secret: name } = first
        const known = followed.get(id) ?? { namespace, name, keys: new Set(), tokens: new Map(), problem: '' }
        known.keys = new Set([first, ...others].map(({ key }) => key))
        followed.set(id, known)
      }
      if (![...followed.values()].some(isUnread)) return
      lookIn(0)
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
      clearTimeout(timer)
      for (const resolve of waiting) resolve()
      await looking
    },
  }
}

/** Whether an entry that is asked for was never read. */
function isUnread({ keys, tokens }: Followed): boolean {
  return [...keys].some(key => !tokens.has(key))
}
