import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DomainTotalsSchema, HelloSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { History } from './history.ts'
import { openProcessSession } from './process-session.ts'

/** Plays a process that reports every 5 s, and the history of the operator that receives the reports. */
function start() {
  const time = { nowMs: 1_000_000 }
  const clock = { nowMs: () => time.nowMs, monotonicMs: () => time.nowMs }
  const session = openProcessSession(create(HelloSchema, { uid: 'a', pod: 'a' }), () => {}, clock)
  const history = new History(() => [session], clock)
  history.close()
  const counts = new Map<string, number>()
  const report = (hits: Readonly<Record<string, number>>) => {
    time.nowMs += 5_000
    const domains = Object.entries(hits).map(([rule, added]) => {
      const count = (counts.get(rule) ?? 0) + added
      counts.set(rule, count)
      const [domain = ''] = rule.split('.')
      return create(DomainTotalsSchema, { domain, changed: [rule], allowed: [count], calls: [count / 2] })
    })
    session.receive({
      case: 'totals',
      value: create(TotalsSchema, { domains, intervalMs: 5_000n, p50Ms: 0.5, p99Ms: 2 }),
    })
    history.record()
  }
  return { history, report, time }
}

test('the history has the rates of a rule, a domain or several domains, and the latencies', () => {
  const { history, report } = start()
  report({ 'shop.user': 10 })
  report({ 'shop.user': 50, 'bank.loan': 20 })
  report({ 'shop.user': 100 })
  const of = (domains: readonly string[], rule?: string) =>
    history.read({ domains, rule }).map(({ calls, allowed }) => `${allowed} hits/s in ${calls} calls/s`)
  // The first report of a process has no interval, and so no rate. A domain keeps the rate of its last report
  // for 10 s.
  assert.deepEqual(of(['shop'], 'shop.user'), [
    '0 hits/s in 0 calls/s',
    '10 hits/s in 5 calls/s',
    '20 hits/s in 10 calls/s',
  ])
  assert.deepEqual(of(['shop', 'bank']).slice(1), ['14 hits/s in 7 calls/s', '24 hits/s in 12 calls/s'])
  assert.deepEqual(of(['none']), Array(3).fill('0 hits/s in 0 calls/s'))
  const [first] = history.read({ domains: [] })
  assert.deepEqual([first?.atMs, first?.p50Ms, first?.p99Ms], [1_005_000, 0.5, 2])
})

test('the history has the last 15 minutes of at most 2,000 rules and domains', () => {
  const { history, report } = start()
  const rules = Array.from({ length: 2_500 }, (_, index) => `shop.user_${index}`)
  report(Object.fromEntries(rules.map(rule => [rule, 1])))
  report(Object.fromEntries(rules.map(rule => [rule, 5])))
  const known = () =>
    rules.filter(rule => history.read({ domains: ['shop'], rule }).some(({ allowed }) => allowed > 0)).length
  assert.equal(known(), 1_999)
  for (let point = 0; point < 200; point += 1) report({})
  assert.equal(history.read({ domains: ['shop'] }).length, 180)
  assert.equal(known(), 0)
})
