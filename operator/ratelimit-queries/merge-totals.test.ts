import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DomainTotalsSchema, HelloSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { mergeDomains, mergePods, mergeRules } from './merge-totals.ts'
import { type OpenProcessSession, openProcessSession } from './process-session.ts'

function open(t: { nowMs: number }, uid: string, worker = 0, workers = 0) {
  const clock = { nowMs: () => t.nowMs, monotonicMs: () => t.nowMs }
  return openProcessSession(create(HelloSchema, { uid, pod: uid, worker, workers }), () => {}, clock)
}

function report(session: OpenProcessSession, allowed: number, whole = false): void {
  const hits = { changed: ['shop.user'], allowed: [allowed], refused: [1] }
  const domains = [create(DomainTotalsSchema, { domain: 'shop', rules: 2, whole, ...hits })]
  session.receive({
    case: 'totals',
    value: create(TotalsSchema, { domains, intervalMs: 5_000n, decisions: 50n }),
  })
}

test('a pod reports while all its workers do, within 7.5 s', () => {
  const time = { nowMs: 1_000_000 }
  const [one, two] = [open(time, 'a', 0, 2), open(time, 'a', 1, 2)]
  const state = (...sessions: readonly OpenProcessSession[]) => {
    const lost = [one, two].filter(session => !sessions.includes(session))
    const pods = mergePods(
      sessions,
      lost.map(session => ({ session, endedMs: time.nowMs })),
      time.nowMs,
    )
    assert.equal(pods.length, 1)
    return [pods[0]?.workers, pods[0]?.isReporting]
  }
  for (const session of [one, two]) report(session, 1, true)
  assert.deepEqual(state(one, two), [2, true])
  assert.deepEqual(state(one), [1, false])
  time.nowMs += 7_499
  report(one, 2)
  assert.deepEqual(state(one, two), [2, true])
  time.nowMs += 1
  assert.deepEqual(state(one, two), [2, false])
})

test('the rates of a rule are those of the last interval, and end with the reports', () => {
  const time = { nowMs: 1_000_000 }
  const [one, two] = [open(time, 'a'), open(time, 'b')]
  for (const session of [one, two]) report(session, 100, true)
  const rates = () => mergeDomains([one, two], time.nowMs).map(({ perSecond }) => perSecond.allowed)
  assert.deepEqual(rates(), [0], 'the first totals are those since the start of the process')
  time.nowMs += 5_000
  report(one, 150)
  assert.deepEqual(rates(), [10])
  const [rule] = mergeRules([one, two], 'shop', time.nowMs)
  assert.deepEqual([rule?.allowed, rule?.refused, rule?.pods['b']?.allowed], [250, 2, 100])
  const [sum] = mergeRules([one, two], 'shop', time.nowMs, true)
  assert.deepEqual([sum?.allowed, Object.keys(sum?.pods ?? {})], [250, []])
  time.nowMs += 10_001
  assert.deepEqual(rates(), [0])
})

test('a new configuration of a domain drops its former rules', () => {
  const time = { nowMs: 0 }
  const session = open(time, 'a')
  report(session, 1, true)
  const domains = [{ domain: 'shop', rules: 1, whole: true, changed: [] }]
  session.receive({ case: 'totals', value: create(TotalsSchema, { domains }) })
  assert.deepEqual(mergeRules([session], 'shop', 0), [])
  session.receive({ case: 'totals', value: create(TotalsSchema, { removedDomains: ['shop'] }) })
  assert.deepEqual(mergeDomains([session], 0), [])
})
