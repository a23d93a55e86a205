import { isDeepStrictEqual } from 'node:util'
import { type Outcome, WorkQueue } from '../../../controller/work-queue.ts'
import type { RouteSecrets, SecretPlace } from '../../../kinds/animation-stream-route/route-secrets.ts'
import {
  readSigningSecrets,
  type SigningSecrets,
} from '../../../kinds/animation-stream-route/signing-secrets.ts'
import { hashTokens, type Tokens } from '../../../kinds/animation-stream-route/token-secrets.ts'
import { SecretForbiddenError } from '../../../sources/secret-forbidden.ts'
import type { ReadPace } from './read-pace.ts'

export interface PolledSecretsOptions {
  /**
   * Resolves with the entries of a Secret; undefined when it does not exist. Rejects with a
   * `SecretForbiddenError` when the operator may not read it.
   */
  readonly read: (namespace: string, name: string, signal: AbortSignal) => Promise<Entries>
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
const unknown = { unknown: true } as const

type Entries = Readonly<Record<string, string>> | undefined

/** What resources need of an entry: its tokens, or its signing secrets. */
type Use = 'tokens' | 'signing'
type Known = Tokens | SigningSecrets

interface UsedPlace extends SecretPlace {
  readonly use: Use
}

const readers = { tokens: hashTokens, signing: readSigningSecrets }
const idOf = ({ use, key }: Pick<UsedPlace, 'use' | 'key'>) => `${use} ${key}`

/** One Secret, and what resources need of its entries. */
interface Followed {
  readonly namespace: string
  readonly name: string
  /** By `idOf`. */
  places: ReadonlyMap<string, UsedPlace>
  known: ReadonlyMap<string, Known>
  /** Why it could not be read the last time. */
  problem: string
  isReading: boolean
}

/**
 * Secrets of an API server, each read by its name once, however many resources name it: at once when a
 * resource names it first, and then at the pace of reads, 30 seconds apart at least. The operator neither
 * lists nor watches Secrets. Known values stay valid while their Secret cannot be read.
 */
export function createPolledSecrets(options: PolledSecretsOptions): RouteSecrets & { stop(): Promise<void> } {
  const { pace, random } = options
  const { lookMs, retryMs, readMs, patienceMs } = { ...defaultTiming, ...options.timing }
  const followed = new Map<string, Followed>()
  const listeners: (() => void)[] = []
  const waiting = new Set<() => void>()
  const stopping = new AbortController()

  const queue = new WorkQueue({
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
      learn(secret, place => readers[place.use](entries, place))
    } catch (error) {
      if (stopping.signal.aborted) return
      const { message } = error as Error
      if (message !== secret.problem) options.onError(id, error as Error)
      secret.problem = message
      if (!(error instanceof SecretForbiddenError)) {
        throw Object.assign(new Error(message), { retryAfterMs: pace.reserve(id, { atLeastMs: 0 }) })
      }
      const { advice: forbidden } = error
      learn(secret, (_, before) => ({ ...valuesOf(before), forbidden }))
    } finally {
      secret.isReading = false
    }
  }

  /** Equal values keep their object, and listeners are called only after a change. */
  function learn(secret: Followed, next: (place: UsedPlace, before: Known | undefined) => Known): void {
    let isOther = false
    const known = Array.from(secret.places, ([id, place]): [string, Known] => {
      const before = secret.known.get(id)
      const now = next(place, before)
      if (before !== undefined && isDeepStrictEqual(before, now)) return [id, before]
      isOther = true
      return [id, now]
    })
    secret.known = new Map(known)
    if (isOther) for (const listener of listeners) listener()
  }

  const knownOf = ({ namespace, secret, key }: SecretPlace, use: Use) =>
    followed.get(`${namespace}/${secret}`)?.known.get(idOf({ use, key }))

  const isAnyUnread = () => [...followed.values()].some(isUnread)

  function unfollowAllBut(ids: ReadonlyMap<string, unknown>): void {
    for (const id of followed.keys()) {
      if (ids.has(id)) continue
      followed.delete(id)
      pace.release(id)
    }
  }

  return {
    async follow(tokens, signing = []) {
      const places = [...usedFor('tokens', tokens), ...usedFor('signing', signing)]
      const bySecret = Map.groupBy(places, ({ namespace, secret }) => `${namespace}/${secret}`)
      unfollowAllBut(bySecret)
      for (const [id, [first, ...others]] of bySecret) {
        if (first === undefined) continue
        const known = followed.get(id) ?? neverRead(first)
        known.places = new Map([first, ...others].map(place => [idOf(place), place]))
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
    tokens: place => (knownOf(place, 'tokens') as Tokens | undefined) ?? unknown,
    signing: place => (knownOf(place, 'signing') as SigningSecrets | undefined) ?? unknown,
    onChange: listener => void listeners.push(listener),
    async stop() {
      stopping.abort()
      for (const resolve of waiting) resolve()
      await queue.stop()
    },
  }
}

function neverRead({ namespace, secret: name }: SecretPlace): Followed {
  return { namespace, name, places: new Map(), known: new Map(), problem: '', isReading: false }
}

const usedFor = (use: Use, places: readonly SecretPlace[]) => places.map(place => ({ ...place, use }))

/** Whether an entry that a resource names was never read. */
function isUnread({ places, known }: Followed): boolean {
  return [...places.keys()].some(id => !known.has(id))
}

function valuesOf(known: Known | undefined) {
  if (known === undefined) return {}
  if ('hashes' in known) return { hashes: known.hashes }
  return 'secrets' in known ? { secrets: known.secrets } : {}
}
