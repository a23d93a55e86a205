import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { ResourceMemory } from '../../kinds/choose-contents.ts'
import type { Named } from '../../kinds/kind-adapter.ts'
import type { KubeObject } from './api/kube-object.ts'
import type { LastGoodEntry } from './last-good/last-good-entry.ts'
import { encodeLastGood, LastGoodStore } from './last-good/last-good-store.ts'
import { rememberInObjects } from './memory.ts'
import type { StoredResource } from './status/stored-resource.ts'

const isContent = (value: unknown): value is Named => isObject(value)
const condition = { type: 'Programmed', status: 'False', message: '', observedGeneration: 2 } as const
const resource = (reason: string): StoredResource => ({
  metadata: { name: 'checkout', namespace: 'shop', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
  status: { conditions: [{ ...condition, reason, lastTransitionTime: '2026-01-01T00:00:00Z' }] },
})

/** A memory of one resource, whose status the leader has written, beside what the leader has stored. */
async function open(reason: string, own: Partial<ResourceMemory<Named>>) {
  const stored = new Map<string, LastGoodEntry>()
  const remembered = rememberInObjects({ isContent }, { read: async () => stored, set() {} }, () => [
    resource(reason),
  ])
  await remembered.read()
  remembered.replace(new Map([['u', { firstSeenMs: 0, origin: 'shop/checkout', ...own }]]))
  const find = () => {
    const { lastGood, lastGoodGeneration, heirOf } = remembered.all().get('u') ?? {}
    return lastGood && { generation: lastGoodGeneration, heirOf }
  }
  return { stored, remembered, find }
}

const text = encodeLastGood({ name: 'shop/checkout' })
const lastGood = { name: 'shop/checkout' }

test('what the leader stores after the first read is found by another read', async () => {
  const { stored, remembered, find } = await open('LastGoodInForce', {})
  assert.equal(find(), undefined)
  stored.set('u', { generation: 1, text })
  await remembered.read()
  assert.deepEqual(find(), { generation: 1, heirOf: undefined })
})

describe('an operator takes over what the leader has stored of a disputed resource', () => {
  const own = { lastGood, lastGoodGeneration: 3, heirOf: 'checkout' }

  test('and nothing else', async () => {
    const { stored, remembered, find } = await open('LastGoodInForce', own)
    stored.set('u', { generation: 2, text, heirOf: 'search' })
    await remembered.read()
    assert.deepEqual(find(), { generation: 3, heirOf: 'checkout' })
    await remembered.read(() => true)
    assert.deepEqual(find(), { generation: 2, heirOf: 'search' })
  })

  test('which is no claim before it is stored, but leaves the content in force', async () => {
    const { remembered, find } = await open('LastGoodInForce', own)
    await remembered.read(() => true)
    assert.deepEqual(find(), { generation: 3, heirOf: undefined })
  })

  test('which is nothing when the leader has nothing in force', async () => {
    const { remembered, find } = await open('NotAccepted', own)
    await remembered.read(() => true)
    assert.equal(find(), undefined)
  })

  test('and of deleted resources', async () => {
    const { stored, remembered } = await open('NotAccepted', own)
    remembered.replace(
      new Map([['mine', { firstSeenMs: 0, origin: 'shop/other', lastGood, goneSinceMs: 7 }]]),
    )
    stored.set('theirs', { generation: 1, text, goneSinceMs: 5 })
    await remembered.read(() => true)
    const gone = Array.from(remembered.all().entries(), ([uid, { goneSinceMs }]) => [uid, goneSinceMs])
    assert.deepEqual(gone, [['theirs', 5]])
  })
})

test('a new leader keeps a stored content that it has not read, until its resource is gone', async t => {
  const objects = new Map<string, KubeObject>()
  const write = async (_: unknown, object: KubeObject) => {
    const metadata = { ...object.metadata, uid: 'object', resourceVersion: '1' }
    objects.set(object.metadata.name, { ...object, metadata })
    return { ...object, metadata }
  }
  const client = {
    get: async (_: unknown, { name }: { readonly name: string }) => objects.get(name),
    create: write,
    replace: write,
    delete: async (_: unknown, { name }: { readonly name: string }) => void objects.delete(name),
  }
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway', uid: 'owner' }
  const installation = { name: 'tollway', namespace: 'tollway', revision: '', owner }
  const openStore = () => {
    const stored = Promise.withResolvers<void>()
    const store = new LastGoodStore({
      ...{ client, installation, plural: 'ratelimitconfigs', random: Math.random, spacingMs: 1 },
      mayWrite: () => true,
      isReadable: () => true,
      onStored: stored.resolve,
      onError: stored.reject,
    })
    t.after(() => store.stop())
    return { store, stored: stored.promise }
  }
  const known = { firstSeenMs: 0, origin: 'shop/checkout' }
  const [last, next, later] = [openStore(), openStore(), openStore()]
  last.store.set(new Map([['u', { ...known, lastGood: { name: 'shop/checkout' }, lastGoodGeneration: 1 }]]))
  await last.stored
  next.store.set(new Map([['u', known]]))
  await next.stored
  assert.deepEqual([...(await next.store.read()).keys()], ['u'])
  later.store.set(new Map())
  await later.stored
  assert.deepEqual([...(await later.store.read()).keys()], [])
})
