import { QueryError } from '../pods/query-error.ts'
import type {
  CounterAddress,
  CounterReading,
  OpenReservations,
  PodSessions,
} from '../ratelimit-queries/pod-sessions.ts'

const names = ['pod-a', 'pod-b']
const hits = { calls: 5, allowed: 12, refused: 3, near: 2, shadow: 0 }
const perSecond = { calls: 1, allowed: 2.4, refused: 0.6, near: 0.4, shadow: 1 }
const limit = 10

/** Pods of the domain `checkout` with one rule, `checkout.user`, of 10 a minute. */
export interface PlayedPods extends PodSessions {
  /** The error with which every call rejects; undefined if calls succeed. */
  problem: QueryError | undefined
  /** The names of the pods that do not answer. */
  missing: readonly string[]
  /** What is known of the reservations and the shares of every counter. */
  reserved: Pick<CounterReading, 'reservations' | 'reservationsProblem' | 'shares'>
  /** The algorithm of every counter. */
  algorithm: string
  /** The number of open streams. */
  open: number
}

/** Two reservations of 7, of which the first is listed. */
export const playedReservations: OpenReservations = {
  ...{ count: 2, summed: 2, amount: 7, nextExpiryMs: 1_795_453_242_000 },
  first: [{ id: '3kx.mO0ZJ3vT1eVb.8fJc2nW0Qx6r', amount: 3, expiresAtMs: 1_795_453_242_000 }],
}

const share = { wantedPerSecond: 20.5, grantedPerSecond: 40, expiresInMs: 14_200 }

/** A limit of 100 a second that two proxies share, of which one is listed. */
export const playedShares: NonNullable<CounterReading['shares']> = {
  ...{ limitPerSecond: 100, wantedPerSecond: 41, grantedPerSecond: 80, memberCount: 2 },
  members: [{ name: '10.0.0.1', pod: 'pod-a', ...share }],
  pods: [{ name: 'id-a', pod: 'pod-a', ...share }],
  missing: ['pod-b'],
}

export function playPods(): PlayedPods {
  const counts = new Map<string, number>()

  function read(at: CounterAddress): CounterReading {
    check(at.domain)
    const [entry] = at.entries
    if (entry?.key !== 'user') throw new QueryError('no-rule', 'no rule matches the entries', 'entries')
    const value = counts.get(entry.value) ?? 10
    const remaining = Math.max(0, limit - value)
    const key = `${at.domain}_user_${entry.value}_0`
    return {
      counters: [
        { rule: 'checkout.user', algorithm: pods.algorithm, key, value, limit, remaining, resetSeconds: 30 },
      ],
      missing: pods.missing,
      ...pods.reserved,
    }
  }

  function check(domain: string): void {
    if (pods.problem) throw pods.problem
    if (domain !== 'checkout') throw new QueryError('unknown-domain', 'there is no such domain', 'domain')
  }

  function change(at: CounterAddress, by: number | undefined) {
    const [counter] = read(at).counters
    counts.set(at.entries[0]?.value ?? '', by === undefined ? 0 : (counter?.value ?? 0) - by)
    return { ...read(at), confirmed: names.filter(name => !pods.missing.includes(name)) }
  }

  async function* each<Item>(item: Item, signal: AbortSignal): AsyncGenerator<Item> {
    pods.open += 1
    try {
      yield item
      if (!signal.aborted)
        await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
    } finally {
      pods.open -= 1
    }
  }

  const pods: PlayedPods = {
    problem: undefined,
    missing: [],
    reserved: { reservations: { count: 0, summed: 0, amount: 0, first: [] } },
    algorithm: 'FixedWindow',
    open: 0,
    async pods() {
      return { items: names.map(describePod) }
    },
    async domains() {
      check('checkout')
      return { items: [{ domain: 'checkout', ...hits, rules: 2, pods: 2, perSecond }] }
    },
    async rules(domain) {
      check(domain)
      return { items: [{ rule: 'checkout.user', ...hits, perSecond, pods: { a: hits } }] }
    },
    counter: async at => read(at),
    reset: async at => change(at, undefined),
    raise: async (at, by) => change(at, by),
    async top({ domain }) {
      check(domain)
      const keys = [{ entries: [{ key: 'user', value: 'alice' }], count: 3, error: 0 }]
      return { keys, missingAtMost: 0, sinceMs: 1000, missing: pods.missing, hashed: false }
    },
    async history({ domains }) {
      if (pods.problem) throw pods.problem
      const rates = domains.includes('checkout') ? perSecond : { ...perSecond, calls: 0, allowed: 0 }
      return [{ atMs: 1000, ...rates, p50Ms: 0.5, p99Ms: 2 }]
    },
    async *series({ domain }, signal) {
      check(domain)
      yield* each({ atMs: 1000, ...hits, pods: 2 }, signal)
    },
    async *tap({ domain }, signal) {
      check(domain)
      yield* each({ decisions: [], skipped: 0, hashed: false }, signal)
    },
    async *whatIf({ domain }) {
      check(domain)
      yield { kind: 'progress', progress: 0.5 }
      yield {
        kind: 'result',
        result: {
          now: [{ rule: 'checkout.user', allowed: 12, refused: 3, refusedAtLeast: 3, refusedAtMost: 5 }],
          proposed: [
            { rule: 'checkout.user', allowed: 5, refused: 10, refusedAtLeast: 10, refusedAtMost: 11 },
          ],
          keys: [
            { entries: [{ key: 'user', value: 'alice' }], hits: 15, refusedNow: 3, refusedProposed: 10 },
          ],
          coverage: {
            fromMs: 1000,
            recordedCalls: 15,
            calls: 15,
            share: 1,
            resolutionMs: 1,
            clocksMs: 2,
            pods: 2,
            started: [],
            missing: pods.missing,
          },
        },
      }
    },
  }
  return pods
}

function describePod(pod: string) {
  return {
    uid: `uid-of-${pod}`,
    pod,
    namespace: 'tollway',
    workers: 1,
    expectedWorkers: 1,
    isReporting: true,
    lastReportMsAgo: 100,
    backend: 'redis',
    backendProblem: '',
    decisionsPerSecond: 3,
    p50Ms: 0.3,
    p99Ms: 1.5,
    droppedReports: 0,
    features: [],
  }
}
