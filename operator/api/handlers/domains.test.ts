import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QueryError } from '../../xds/sessions/query-error.ts'
import type { DomainList } from '../shapes.ts'
import { serveApi } from '../testing/serve-api.ts'

test('rules leave out the totals of each pod if only sums are requested', async t => {
  const { ask } = await serveApi(t)
  const podsOf = async (query: string) => {
    const { body } = await ask(`/domains/checkout/rules${query}`)
    return (body.items as unknown as { pods: object }[]).map(({ pods }) => Object.keys(pods))
  }
  assert.deepEqual(await podsOf(''), [[], ['a']])
  assert.deepEqual(await podsOf('?totals=sum'), [[], []])
})

test('rules that no pod has reported are listed without hits; unlimited ones are left out', async t => {
  const { ask, pods } = await serveApi(t)
  const rulesOf = async (query = '') => {
    const { body } = await ask(`/domains/checkout/rules${query}`)
    const items = body.items as unknown as { rule: string; allowed: number; callsPerSecond: number }[]
    return [items.map(({ rule, allowed, callsPerSecond }) => [rule, allowed, callsPerSecond]), body.next]
  }
  const [path, user] = [
    ['checkout.path', 0, 0],
    ['checkout.user', 12, 4],
  ]
  assert.deepEqual(await rulesOf(), [[path, user], undefined])
  assert.deepEqual(await rulesOf('?limit=1'), [[path], 'checkout.path'])
  assert.deepEqual(await rulesOf('?limit=1&after=checkout.path'), [[user], undefined])
  pods.problem = new QueryError('unknown-domain', 'no process enforces checkout')
  assert.deepEqual(await rulesOf(), [[path, ['checkout.user', 0, 0]], undefined])
})

test('a domain that no pod enforces has the number of the rules of its resource', async t => {
  const { ask } = await serveApi(t)
  const { body } = await ask('/domains?after=checkout')
  const [loans] = body.items as unknown as DomainList['items']
  assert.deepEqual([loans?.domain, loans?.rules, loans?.pods], ['loans', 2, 0])
})
