import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlices } from '@tollway/chassis/slices.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { chooseContents } from './choose-contents.ts'
import { openDomainClaims } from './rate-limit-config/rate-limit-config.ts'
import { qualifiedName } from './source.ts'

/** Returns a resource that names a domain. `lastGood` is the domain that it has in force. */
function resource(name: string, firstSeenMs: number, domain: string, lastGood?: string) {
  const content = (named: string) => ({ name: `shop/${name}`, domain: named, descriptors: [] })
  const resource = {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    namespace: 'shop',
    name,
    uid: name,
    generation: 1,
    paused: false,
    spec: {},
    origin: `${name}.yaml`,
  }
  const memory = { firstSeenMs, origin: `${name}.yaml`, ...(lastGood && { lastGood: content(lastGood) }) }
  return {
    name: qualifiedName(resource),
    resource,
    memory,
    translation: { value: content(domain), warnings: [] },
  }
}

const choose = async (...gathered: readonly ReturnType<typeof resource>[]) =>
  (await chooseContents<RateLimitDomain>(gathered, openDomainClaims(), createSlices())).map(
    ({ resource, content, denial }) => `${resource.name}: ${content?.domain} ${denial?.owner ?? ''}`,
  )

test('the older resource gets the content, whatever their order', async () => {
  assert.deepEqual(await choose(resource('young', 2, 'd'), resource('old', 1, 'd')), [
    'young: undefined shop/old',
    'old: d ',
  ])
})

test('of resources of equal age the name decides', async () => {
  assert.deepEqual(await choose(resource('b', 1, 'd'), resource('a', 1, 'd')), [
    'b: undefined shop/a',
    'a: d ',
  ])
})

test('of equally old resources the one in force keeps the content, also while it is edited', async () => {
  const inForce = (name: string, domain: string, generation: number) => {
    const item = resource(name, 1, domain, domain)
    return {
      ...item,
      resource: { ...item.resource, generation },
      memory: { ...item.memory, lastGoodGeneration: 1 },
    }
  }
  for (const generation of [1, 2]) {
    const expected = ['a: undefined shop/b', 'b: d ']
    assert.deepEqual(await choose(resource('a', 1, 'd'), inForce('b', 'd', generation)), expected)
    const mover = { ...inForce('a', 'other', 2), translation: resource('a', 1, 'd').translation }
    const kept = await choose(mover, inForce('b', 'd', generation))
    assert.deepEqual(kept, ['a: other shop/b', 'b: d '])
  }
})

test('a claim that is in force is not kept for the namespace of a deleted resource', async () => {
  const item = resource('a', 1, 'd', 'd')
  const content = { name: 'bank/gone', domain: 'd', descriptors: [] }
  const memory = { firstSeenMs: 0, origin: '' }
  const departed = [{ uid: 'gone', memory, content: { ...item.translation.value, ...content }, endMs: 9 }]
  const reasonOf = async (lastGoodGeneration?: number) => {
    const gathered = [{ ...item, memory: { ...item.memory, lastGoodGeneration } }]
    const [chosen] = await chooseContents<RateLimitDomain>(
      gathered,
      openDomainClaims(),
      createSlices(),
      departed,
    )
    return chosen?.denial?.reason
  }
  assert.equal(await reasonOf(), 'ClaimKept')
  assert.equal(await reasonOf(1), undefined)
})

test('a resource that changes to a domain in use keeps its last good content', async () => {
  assert.deepEqual(await choose(resource('mover', 2, 'd', 'own'), resource('old', 1, 'd')), [
    'mover: own shop/old',
    'old: d ',
  ])
})
