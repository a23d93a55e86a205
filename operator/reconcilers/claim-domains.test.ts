import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimDomains } from './claim-domains.ts'

const claim = (name: string, firstSeenMs: number, ...domains: string[]) => ({
  uid: name,
  name,
  firstSeenMs,
  domains,
})

test('the oldest resource has the domain, and the others are told whose it is', () => {
  const grants = claimDomains([claim('young', 2, 'd'), claim('old', 1, 'd')])
  assert.deepEqual(grants.get('old'), { domain: 'd', owner: undefined })
  assert.deepEqual(grants.get('young'), { domain: undefined, owner: 'old' })
})

test('equal age is decided by the uid, whatever the order', () => {
  const grants = claimDomains([claim('b', 1, 'd'), claim('a', 1, 'd')])
  assert.equal(grants.get('a')?.domain, 'd')
})

test('a resource that moved to a taken domain keeps its last good one', () => {
  const grants = claimDomains([claim('mover', 2, 'd', 'own'), claim('old', 1, 'd')])
  assert.deepEqual(grants.get('mover'), { domain: 'own', owner: 'old' })
})
