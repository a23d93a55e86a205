import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDomainClaims } from './rate-limit-config.ts'

const claimant = (name: string) => ({ name: `of-${name}/${name}`, namespace: `of-${name}` })

test('a domain belongs to the resource that was granted it, and denials name the owner', () => {
  const claims = openDomainClaims()
  assert.equal(claims.findDenial({ domain: 'd' }, claimant('old')), undefined)
  claims.grant({ domain: 'd' }, claimant('old'))
  assert.deepEqual(claims.findDenial({ domain: 'd' }, claimant('young')), {
    reason: 'DomainConflict',
    path: 'spec.domain',
    message: '"d" belongs to of-old/old, which is older; name another',
    owner: 'of-old/old',
  })
  assert.equal(claims.findDenial({ domain: 'own' }, claimant('young')), undefined)
})

test('a domain that is reserved for namespaces goes to their first resource', () => {
  const claims = openDomainClaims(new Map([['d', ['of-young', 'of-middle']]]))
  const denial = claims.findDenial({ domain: 'd' }, claimant('old'))
  assert.equal(denial?.reason, 'DomainNotGranted')
  assert.match(denial?.message ?? '', /kept for the namespaces of-young, of-middle/)
  assert.equal(claims.findDenial({ domain: 'd' }, claimant('middle')), undefined)
  claims.grant({ domain: 'd' }, claimant('middle'))
  assert.equal(claims.findDenial({ domain: 'd' }, claimant('young'))?.owner, 'of-middle/middle')
})
