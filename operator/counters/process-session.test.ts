import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { HelloSchema, TotalsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { openProcessSession } from './process-session.ts'

const clock = { nowMs: () => 0, monotonicMs: () => 0 }
const most = 100_000

function open() {
  const session = openProcessSession(create(HelloSchema, { uid: 'a' }), () => {}, clock)
  const receive = (
    domains: readonly { domain: string; rules: readonly string[] }[],
    removed: string[] = [],
  ) =>
    session.receive({
      case: 'totals',
      value: create(TotalsSchema, {
        domains: domains.map(({ domain, rules }) => ({ domain, changed: rules.map(rule => ({ rule })) })),
        removedDomains: removed,
      }),
    })
  return { session, receive }
}

test('rules beyond the maximum are dropped until a domain is removed', () => {
  const { session, receive } = open()
  const rules = Array.from({ length: 2 * most }, (_, index) => `rule ${index}`)
  receive([{ domain: 'large', rules }])
  assert.equal(session.state.domains.get('large')?.rules.size, most)
  receive([{ domain: 'small', rules: ['rule'] }], ['large'])
  assert.equal(session.state.domains.get('small')?.rules.size, 1)
})

test('domains beyond the maximum are dropped', () => {
  const { session, receive } = open()
  receive(Array.from({ length: most + 10 }, (_, index) => ({ domain: `domain ${index}`, rules: [] })))
  assert.equal(session.state.domains.size, most)
})
