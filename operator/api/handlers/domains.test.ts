import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QueryError } from '../../pods/query-error.ts'
import { serveApi } from '../../testing/serve-api.ts'
import type { DomainList, RuleList } from '../shapes.ts'

test('rules leave out the totals of each pod if only sums are requested', async t => {
  const { ask } = await serveApi(t)
  const podsOf = async (query: string) => {
    const { body } = await ask(`/domains/checkout/rules${query}`)
    return (body.items as unknown as { pods: object }[]).map(({ pods }) => Object.keys(pods))
  }
  assert.deepEqual(await podsOf(''), [[], [], ['a']])
  assert.deepEqual(await podsOf('?totals=sum'), [[], [], []])
})

test('rules that no pod has reported are listed without hits, and unlimited ones too', async t => {
  const { ask, pods } = await serveApi(t)
  const rulesOf = async (query = '') => {
    const { body } = await ask(`/domains/checkout/rules${query}`)
    const items = body.items as unknown as RuleList['items']
    return [items.map(({ rule, calls, hitsPerSecond }) => [rule, calls, hitsPerSecond]), body.next]
  }
  const [path, staff, user] = [
    ['checkout.path', 0, 0],
    ['checkout.staff', 0, 0],
    ['checkout.user', 5, 4],
  ]
  assert.deepEqual(await rulesOf(), [[path, staff, user], undefined])
  assert.deepEqual(await rulesOf('?limit=1'), [[path], 'checkout.path'])
  assert.deepEqual(await rulesOf('?limit=1&after=checkout.staff'), [[user], undefined])
  pods.problem = new QueryError('unknown-domain', 'no process enforces checkout')
  assert.deepEqual(await rulesOf(), [[path, staff, ['checkout.user', 0, 0]], undefined])
})

test('a domain that no pod enforces has the number of the rules of its resource', async t => {
  const { ask } = await serveApi(t)
  const { body } = await ask('/domains?after=checkout')
  const [loans] = body.items as unknown as DomainList['items']
  assert.deepEqual([loans?.domain, loans?.rules, loans?.pods], ['loans', 3, 0])
})
