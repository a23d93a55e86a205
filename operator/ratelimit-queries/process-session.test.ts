import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DomainTotalsSchema, HelloSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { openProcessSession } from './process-session.ts'

const clock = { nowMs: () => 0, monotonicMs: () => 0 }
const most = 100_000

function open() {
  const session = openProcessSession(create(HelloSchema, { uid: 'a' }), () => {}, clock)
  const receive = (
    domains: readonly { domain: string; rules: string[]; allowed?: number[] }[],
    removedDomains: string[] = [],
  ) => {
    const reported = domains.map(({ domain, rules, allowed = [] }) =>
      create(DomainTotalsSchema, { domain, changed: rules, allowed }),
    )
    session.receive({ case: 'totals', value: create(TotalsSchema, { domains: reported, removedDomains }) })
  }
  return { session, receive }
}

test('the rules of a process beyond the maximum are dropped until a domain is removed', () => {
  const { session, receive } = open()
  const rules = Array.from({ length: 2 * most }, (_, index) => `rule ${index}`)
  receive([{ domain: 'large', rules }])
  assert.equal(session.state.domains.get('large')?.rules.size, most)
  receive([{ domain: 'small', rules: ['rule'] }], ['large'])
  assert.equal(session.state.domains.get('small')?.rules.size, 1)
})

test('reported numbers that no process counts, or that are left out, are 0', () => {
  const { session, receive } = open()
  const wrong = [Number.NaN, Number.POSITIVE_INFINITY, -1, 0.5, 2 ** 53]
  const rules = [...wrong, 7, 'left out'].map(String)
  receive([{ domain: 'shop', rules, allowed: [...wrong, 7] }])
  const counts = [...(session.state.domains.get('shop')?.rules.values() ?? [])].map(({ allowed }) => allowed)
  assert.deepEqual(counts, [0, 0, 0, 0, 0, 7, 0])
})

test('the domains of a process beyond the maximum are dropped', () => {
  const { session, receive } = open()
  receive(Array.from({ length: most + 10 }, (_, index) => ({ domain: `domain ${index}`, rules: [] })))
  assert.equal(session.state.domains.size, most)
})
