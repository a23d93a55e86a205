import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { HelloSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { type OpenProcessSession, openProcessSession } from './process-session.ts'
import { type SharedDomain, SharingStates } from './sharing-states.ts'

const shop: SharedDomain = { domain: 'shop', hasQuota: true, largestLease: 0 }

interface Told {
  members?: number
  rule?: string
  buckets?: number
  settled?: number
  assigned?: number
  mostMembers?: number
  sketch?: readonly number[]
}

function start(domains: readonly SharedDomain[] = [shop]) {
  let nowMs = 1_000_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const sessions = new Map<string, OpenProcessSession>()
  let isLeader = true
  let changes = 0
  let expected: readonly string[] = []
  const states = new SharingStates({
    table: {
      sessions: () => [...sessions.values()],
      lost: () => [],
      expected: () => expected.map(uid => ({ uid, name: uid })),
    },
    domains: () => domains,
    isLeader: () => isLeader,
    clock,
  })
  states.onChange(() => {
    changes += 1
  })
  return {
    states,
    changes: () => changes,
    quota: () => {
      const state = states.of('shop')
      return state === 'unknown' ? state : state.quota
    },
    pass(ms: number) {
      nowMs += ms
    },
    lead(leads: boolean) {
      isLeader = leads
    },
    expect(...uids: readonly string[]) {
      expected = uids
    },
    lose: (uid: string) => sessions.delete(uid),
    /** Lets the process report, and connects it before, if need be. */
    report(uid: string, told?: Told, backend = 'redis', ofWorker = { worker: 0, workers: 0 }) {
      const name = ofWorker.worker === 0 ? uid : `${uid}/${ofWorker.worker}`
      const session =
        sessions.get(name) ??
        openProcessSession(create(HelloSchema, { uid, pod: uid, backend, ...ofWorker }), () => {}, clock)
      sessions.set(name, session)
      const { members = 1, rule = 'shop.user', buckets = 1, settled = buckets, assigned = 98 } = told ?? {}
      const { mostMembers = members, sketch = [7] } = told ?? {}
      const sums = { buckets, settled, assigned, mostMembers, sketch: [...sketch] }
      const rules = [{ rule, tokens: 100n, maxTokens: 10n, ...sums }]
      const shares = told === undefined ? [] : [{ domain: 'shop', members, rules }]
      const ofDomain = [{ domain: 'shop', rules: 1, whole: true }]
      session.receive({ case: 'totals', value: create(TotalsSchema, { domains: ofDomain, shares }) })
    },
  }
}

test('sums the proxies of all processes, and counts a bucket of several processes once', () => {
  const { states, quota, report } = start()
  report('a', { members: 2, buckets: 3, settled: 3, assigned: 150, sketch: [1, 2, 3] })
  report('b', { members: 3, buckets: 2, settled: 2, assigned: 140, sketch: [3, 4] })
  states.check()
  assert.deepEqual(quota(), {
    members: 5,
    rules: [{ rule: 'shop.user', buckets: 4, assignedPercent: 73, atOnceAtMost: 14 }],
    converged: true,
    lastConvergence: '1970-01-01T00:16:40.000Z',
  })
})

test('estimates the buckets of processes that have many, within a quarter', () => {
  const { states, quota, report } = start()
  const hashes = Array.from({ length: 3_000 }, (_, index) => Math.imul(index + 1, 0x9e3779b1) >>> 0)
  const smallest = (some: readonly number[]) => some.toSorted((a, b) => a - b).slice(0, 64)
  const [first, second] = [hashes.slice(0, 2_000), hashes.slice(1_000)]
  report('a', { buckets: 2_000, sketch: smallest(first) })
  report('b', { buckets: 2_000, sketch: smallest(second) })
  states.check()
  const found = quota()
  const buckets = found === 'unknown' ? 0 : (found?.rules?.[0]?.buckets ?? 0)
  assert.ok(Math.abs(buckets - 3_000) < 750, `${buckets}`)
})

test('a change without weight is no change, and another one is told after 30 s', () => {
  const { states, changes, quota, report, pass } = start()
  const members = () => (quota() as { readonly members?: number } | undefined)?.members
  const check = (told: Told) => {
    pass(5_000)
    report('a', told)
    states.check()
  }
  check({ members: 5, buckets: 100, assigned: 9_800 })
  assert.deepEqual([changes(), members()], [1, 5])
  for (let times = 0; times < 20; times++)
    check({ members: 5, buckets: 100 + (times % 9), assigned: 9_700 + 98 * (times % 9) })
  assert.equal(changes(), 1)
  check({ members: 6, buckets: 100, assigned: 9_800 })
  assert.deepEqual([changes(), members()], [2, 6])
  for (let times = 0; times < 5; times++) check({ members: 7 + times, buckets: 100, assigned: 9_800 })
  assert.deepEqual([changes(), members()], [2, 6])
  check({ members: 12, buckets: 100, assigned: 9_800 })
  assert.deepEqual([changes(), members()], [3, 12])
})

test('proxies that report to another process within 15 s, after theirs has ended, are never missing', () => {
  const { states, changes, quota, report, pass } = start()
  const check = (members: number) => {
    pass(5_000)
    report('a', { members })
    states.check()
    return (quota() as { readonly members?: number }).members
  }
  for (let times = 0; times < 10; times++) check(5)
  for (const members of [2, 2, 4, 5, 5, 3, 3, 3]) assert.equal(check(members), 5, `${members}`)
  assert.equal(changes(), 1)
  assert.equal(check(3), 3, 'those that do not return')
})

test('a short divergence is no change, one of a minute is', () => {
  const { states, changes, quota, report, pass } = start()
  const check = (settled: number) => {
    pass(5_000)
    report('a', { buckets: 100, settled, assigned: 9_800 })
    states.check()
    return quota()
  }
  check(96)
  for (let times = 0; times < 11; times++) check(50)
  check(95)
  assert.equal(changes(), 1)
  for (let times = 0; times < 12; times++) check(94)
  const diverged = quota() as { readonly converged?: boolean; readonly lastConvergence?: string }
  assert.deepEqual(
    [changes(), diverged.converged, diverged.lastConvergence],
    [2, false, '1970-01-01T00:16:45.000Z'],
  )
  for (let times = 0; times < 6; times++) check(100)
  const again = quota() as typeof diverged
  assert.deepEqual([changes(), again.converged, again.lastConvergence], [3, true, '1970-01-01T00:18:50.000Z'])
})

test('pods that do not report are named, and nothing is told of their proxies', () => {
  const { states, quota, report, pass, expect, lose } = start()
  expect('a', 'b')
  states.check()
  assert.equal(quota(), 'unknown', 'they may connect yet')
  pass(15_000)
  states.check()
  assert.deepEqual(quota(), { missingPods: ['a', 'b'] })
  pass(30_000)
  report('a', { members: 2, assigned: 50 })
  report('b', undefined)
  states.check()
  const rules = [{ rule: 'shop.user', buckets: 1, assignedPercent: 50, atOnceAtMost: 11 }]
  const seen = { converged: true, lastConvergence: '1970-01-01T00:17:25.000Z' }
  assert.deepEqual(quota(), { members: 2, rules, ...seen })
  pass(30_000)
  report('a', { members: 2, assigned: 50 })
  states.check()
  assert.deepEqual(quota(), { members: 2, rules, ...seen, missingPods: ['b'] }, 'it is silent')
  lose('a')
  pass(30_000)
  states.check()
  assert.deepEqual(quota(), { lastConvergence: seen.lastConvergence, missingPods: ['a', 'b'] })
})

test('without any process there are no proxies', () => {
  const { states, quota } = start()
  states.check()
  assert.deepEqual(quota(), { members: 0, rules: [] })
})

test('an operator without the Lease tells nothing, and begins anew when it gets it', () => {
  const { states, quota, report, lead, expect, pass } = start()
  report('a', {})
  states.check()
  assert.notEqual(quota(), 'unknown')
  lead(false)
  states.check()
  assert.equal(quota(), 'unknown')
  lead(true)
  expect('a', 'b')
  states.check()
  assert.equal(quota(), 'unknown')
  report('b', {})
  pass(1_000)
  states.check()
  assert.notEqual(quota(), 'unknown')
})

test('leases are bounded by the number of processes; counters in memory have none', () => {
  const leased = { domain: 'shop', hasQuota: false, largestLease: 100 }
  for (const [backend, expected] of [
    ['redis', { leases: { perProcess: 100, total: 300 } }],
    ['memory', {}],
  ] as const) {
    const { states, report, expect, pass } = start([leased])
    expect('a', 'b', 'c')
    report('a', undefined, backend)
    report('b', undefined, backend)
    states.check()
    pass(15_000)
    report('a', undefined, backend)
    report('b', undefined, backend)
    states.check()
    assert.deepEqual(states.of('shop'), expected, backend)
  }
})

test('leases of a missing pod are those of all its workers, and of one that is partly missing those of the others', () => {
  const { states, report, expect, pass } = start([{ domain: 'shop', hasQuota: false, largestLease: 100 }])
  expect('a', 'b', 'c')
  const reportAll = () => {
    for (const worker of [0, 1, 2]) report('a', undefined, 'redis', { worker, workers: 3 })
    report('b', undefined, 'redis', { worker: 0, workers: 3 })
  }
  reportAll()
  states.check()
  pass(15_000)
  reportAll()
  states.check()
  assert.deepEqual(states.of('shop'), { leases: { perProcess: 100, total: 900 } })
})

test('another largest lease is told, although fewer processes take as much in all', () => {
  const domains = [{ domain: 'shop', hasQuota: false, largestLease: 100 }]
  const { states, report, expect, lose, pass } = start(domains)
  for (const uid of ['a', 'b']) report(uid, undefined)
  states.check()
  assert.deepEqual(states.of('shop'), { leases: { perProcess: 100, total: 200 } })
  domains[0] = { domain: 'shop', hasQuota: false, largestLease: 200 }
  expect('a')
  lose('b')
  pass(30_000)
  report('a', undefined)
  states.check()
  assert.deepEqual(states.of('shop'), { leases: { perProcess: 200, total: 200 } })
})

test('the name of a rule is not longer than a status may have it', () => {
  const { states, quota, report } = start()
  report('a', { rule: `shop.${'x'.repeat(10_000)}` })
  states.check()
  const found = quota()
  const name = found === 'unknown' ? '' : (found?.rules?.[0]?.rule ?? '')
  assert.deepEqual([name.length, name.slice(0, 6), name.at(-1)], [4096, 'shop.x', '…'])
})
