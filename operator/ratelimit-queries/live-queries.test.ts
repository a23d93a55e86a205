import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { HelloSchema, TapSchema, TopSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { createPodSessions } from './create-pod-sessions.ts'
import { openProcessSession, type ProcessSession } from './process-session.ts'

interface Subscribed {
  readonly id: bigint
  readonly maxTapped: number
}

/** Opens the session of a pod that enforces the domain `shop`. */
function openPod(pod: string, feature: string, onSubscribe: (subscribed: Subscribed) => void) {
  const hello = create(HelloSchema, { uid: pod, pod, features: [feature] })
  const session = openProcessSession(
    hello,
    request => {
      if (request.case !== 'subscribe') return
      const { id = 0, maxTapped = 0 } = request.value
      onSubscribe({ id: BigInt(id), maxTapped })
    },
    systemClock,
  )
  const domains = [{ domain: 'shop', rules: 1, whole: true }]
  session.receive({ case: 'totals', value: create(TotalsSchema, { domains }) })
  return session
}

/** Opens the queries of an operator with these sessions. */
function openQueries(t: TestContext, sessions: readonly ProcessSession[]) {
  const table = { sessions: () => sessions, lost: () => [], onOpen() {} }
  const podSessions = createPodSessions({ table, clock: systemClock })
  t.after(() => podSessions.close())
  return podSessions
}

test('a tap of many pods shows a share of the decisions of each, and counts the others', async t => {
  const pods = 100
  const subscribed: bigint[] = []
  const askedFor = new Set<number>()
  const sessions = Array.from({ length: pods }, (_, index) =>
    openPod(`${index}`, 'tap', ({ id, maxTapped }) => {
      subscribed[index] = id
      askedFor.add(maxTapped)
    }),
  )
  const podSessions = openQueries(t, sessions)
  const end = new AbortController()
  const batches = podSessions.tap({ domain: 'shop' }, end.signal)[Symbol.asyncIterator]()
  const first = batches.next()
  await new Promise(setImmediate)
  assert.deepEqual([...askedFor], [5])
  // Pods of an earlier version send more.
  const decisions = Array.from({ length: 50 }, () => ({ rule: 'shop.user' }))
  for (const [index, session] of sessions.entries()) {
    session.receive({ case: 'tap', value: create(TapSchema, { id: subscribed[index] ?? 0n, decisions }) })
  }
  const { value } = await first
  assert.deepEqual([value?.decisions.length, value?.skipped], [500, 4_500])
  // The next batch waits for the next reports: no empty batch follows the one with reports that came
  // together.
  const next = batches.next()
  await new Promise(setImmediate)
  sessions[0]?.receive({ case: 'tap', value: create(TapSchema, { id: subscribed[0] ?? 0n, decisions }) })
  assert.equal((await next).value?.decisions.length, 5)
  end.abort()
  await batches.next()
})

test('keys that several pods report, but that the list has no room for, are within the bound of missing keys', async t => {
  const sessions = ['a', 'b'].map(pod => {
    const session = openPod(pod, 'top', ({ id }) => {
      const keys = Array.from({ length: 100 }, (_, user) => ({
        entries: [{ key: 'user', value: `${pod}${user}` }],
        count: BigInt(1_000 - user),
      }))
      setImmediate(() => session.receive({ case: 'top', value: create(TopSchema, { id, keys }) }))
    })
    return session
  })
  const podSessions = openQueries(t, sessions)
  const { keys, missingAtMost } = await podSessions.top({ domain: 'shop', rule: '', by: 'hits' })
  assert.equal(keys.length, 100)
  // Each pod has 1,000 down to 901 hits; the list has the first 50 of each, and the next key has 950.
  assert.deepEqual([keys.at(-1)?.count, missingAtMost], [951, 950])
})
