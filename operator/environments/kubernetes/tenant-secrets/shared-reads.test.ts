import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSharedReads } from './shared-reads.ts'

const { signal } = new AbortController()

function start() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs }
  const stored = new Map<string, Readonly<Record<string, string>> | Error>()
  const reads: string[] = []
  const shared = createSharedReads(async (namespace, name) => {
    reads.push(`${namespace}/${name}`)
    const found = stored.get(`${namespace}/${name}`)
    if (found instanceof Error) throw found
    return found
  }, clock)
  return {
    clock,
    stored,
    reads,
    read: (reference: string, name: string) => shared.read(reference, name, signal),
    shared,
  }
}

test('a Secret that several resources name is read once in 30 seconds', async () => {
  const { clock, stored, reads, read } = start()
  stored.set('shop/a', { key: 'one' })
  await Promise.all([read('shop', 'a'), read('shop', 'a')])
  clock.nowMs = 29_999
  assert.deepEqual(await read('shop', 'a'), { key: 'one' })
  assert.deepEqual(reads, ['shop/a'])
  clock.nowMs = 30_000
  stored.set('shop/a', { key: 'two' })
  assert.deepEqual(await read('shop', 'a'), { key: 'two' })
})

test('missing Secrets and failures are not cached, and a refreshed namespace is read again', async () => {
  const { stored, reads, read, shared } = start()
  stored.set('shop/a', new Error('gone'))
  await assert.rejects(read('shop', 'a'), /gone/)
  stored.delete('shop/a')
  assert.equal(await read('shop', 'a'), undefined)
  stored.set('shop/a', { key: 'one' })
  stored.set('other/a', { key: 'other' })
  assert.deepEqual([await read('shop', 'a'), await read('other', 'a')], [{ key: 'one' }, { key: 'other' }])
  reads.length = 0
  shared.refresh('shop')
  await Promise.all([read('shop', 'a'), read('other', 'a')])
  assert.deepEqual(reads, ['shop/a'])
})
