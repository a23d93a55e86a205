import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createResource, createSnapshot } from './snapshot.ts'

const typeUrl = 'type.googleapis.com/test.Thing'
const resource = (name: string, text: string) => createResource(name, Buffer.from(text))
const snapshotOf = (contents: readonly (readonly [string, string])[]) =>
  createSnapshot(
    typeUrl,
    contents.map(([name, text]) => resource(name, text)),
  )

test('the version of a snapshot is that of earlier releases, so that an upgrade makes no pod load it again', () => {
  const { version, bytes, resources } = snapshotOf([
    ['b/two', 'second'],
    ['a/one', 'first'],
  ])
  assert.equal(version, '1f6dde598bd98a2941581ab974bb4df1')
  assert.equal(createSnapshot(typeUrl, []).version, '8798c26bad0408176065a4ec11c8a5f8')
  assert.equal(bytes, 11)
  assert.deepEqual([...resources.keys()], ['a/one', 'b/two'])
})

test('versions are equal exactly when the contents are', () => {
  const contents = fc.uniqueArray(
    fc.tuple(fc.constantFrom('a', 'b', 'ab', 'A', 'a"', 'ä'), fc.constantFrom('', 'x', 'y')),
    { selector: ([name]) => name },
  )
  fc.assert(
    fc.property(contents, contents, fc.func(fc.integer()), (one, other, order) => {
      const shuffled = one.toSorted((a, b) => order(a) - order(b))
      assert.equal(snapshotOf(shuffled).version, snapshotOf(one).version)
      const same = (list: typeof one) => JSON.stringify(list.map(entry => JSON.stringify(entry)).sort())
      assert.equal(snapshotOf(one).version === snapshotOf(other).version, same(one) === same(other))
    }),
  )
})

test('the same resources of another type have another version', () => {
  const same = [resource('a', 'x')]
  assert.notEqual(createSnapshot(typeUrl, same).version, createSnapshot(`${typeUrl}2`, same).version)
})

test('two resources of one name, and one without a name, are internal errors', () => {
  assert.throws(
    () =>
      snapshotOf([
        ['a', 'x'],
        ['a', 'y'],
      ]),
    /two resources of a snapshot are named a/,
  )
  assert.throws(() => resource('', 'x'), /needs a name/)
})
