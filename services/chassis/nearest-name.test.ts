import assert from 'node:assert/strict'
import { it } from 'node:test'
import { nearestName } from './nearest-name.ts'

const names = ['key', 'value', 'rateLimit', 'requestsPerUnit', 'unit', 'unlimited', 'descriptors']

const meant = `
requestPerUnit      requestsPerUnit
requests_per_unit   requestsPerUnit
RequestsPerUnits    requestsPerUnit
vlaue               value
keys                key
rate-limit          rateLimit
ratelimits          rateLimit
discriptor          descriptors
unlimted            unlimited
limit               -
zebra               -
x                   -
`

it('finds the nearest name, and none if no name is near', () => {
  for (const line of meant.trim().split('\n')) {
    const [written = '', name] = line.split(/\s+/)
    assert.equal(nearestName(written, names) ?? '-', name, written)
  }
})

it('returns a result for any text', () => {
  assert.equal(nearestName('', names), undefined)
  assert.equal(nearestName('k'.repeat(1_000_000), names), undefined)
})
