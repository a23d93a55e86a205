import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimDomains } from './claim-domains.ts'

const claim = (name: string, firstSeenMs: number, ...domains: string[]) => ({
  uid: name,
  name,
  namespace: `of-${name}`,
  firstSeenMs,
  domains,
})

test('the oldest resource has the domain, and the others are told whose it is', () => {
  const grants = claimDomains([claim('young', 2, 'd'), claim('old', 1, 'd')])
  assert.deepEqual(grants.get('old'), { domain: 'd', refusal: undefined })
  assert.deepEqual(grants.get('young'), { domain: undefined, refusal: { kind: 'taken', owner: 'old' } })
})

test('equal age is decided by the uid, whatever the order', () => {
  const grants = claimDomains([claim('b', 1, 'd'), claim('a', 1, 'd')])
  assert.equal(grants.get('a')?.domain, 'd')
})

test('a resource that moved to a taken domain keeps its last good one', () => {
  const grants = claimDomains([claim('mover', 2, 'd', 'own'), claim('old', 1, 'd')])
  assert.deepEqual(grants.get('mover'), { domain: 'own', refusal: { kind: 'taken', owner: 'old' } })
})

test('a domain that is kept for some namespaces goes to the oldest resource of these', () => {
  const reservations = new Map([['d', ['of-young', 'of-middle']]])
  const grants = claimDomains(
    [claim('old', 1, 'd'), claim('young', 3, 'd'), claim('middle', 2, 'd')],
    reservations,
  )
  assert.deepEqual(grants.get('old'), {
    domain: undefined,
    refusal: { kind: 'reserved', namespaces: ['of-young', 'of-middle'] },
  })
  assert.equal(grants.get('middle')?.domain, 'd')
  assert.deepEqual(grants.get('young')?.refusal, { kind: 'taken', owner: 'middle' })
})
