import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDomainClaims } from './claim-domains.ts'

const claimant = (name: string) => ({ name: `of-${name}/${name}`, namespace: `of-${name}` })

test('a domain belongs to who was granted it, and the others are told whose it is', () => {
  const claims = openDomainClaims()
  assert.equal(claims.refusalOf({ domain: 'd' }, claimant('old')), undefined)
  claims.grant({ domain: 'd' }, claimant('old'))
  assert.deepEqual(claims.refusalOf({ domain: 'd' }, claimant('young')), {
    reason: 'DomainConflict',
    path: 'spec.domain',
    message: '"d" belongs to of-old/old, which is older; name another',
    owner: 'of-old/old',
  })
  assert.equal(claims.refusalOf({ domain: 'own' }, claimant('young')), undefined)
})

test('a domain that is kept for some namespaces goes to the first resource of these', () => {
  const claims = openDomainClaims(new Map([['d', ['of-young', 'of-middle']]]))
  const refusal = claims.refusalOf({ domain: 'd' }, claimant('old'))
  assert.equal(refusal?.reason, 'DomainNotGranted')
  assert.match(refusal?.message ?? '', /kept for the namespaces of-young, of-middle/)
  assert.equal(claims.refusalOf({ domain: 'd' }, claimant('middle')), undefined)
  claims.grant({ domain: 'd' }, claimant('middle'))
  assert.equal(claims.refusalOf({ domain: 'd' }, claimant('young'))?.owner, 'of-middle/middle')
})
