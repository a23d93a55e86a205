import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HealthTable, healthClientCodec, healthMethods } from './health.ts'

const [check] = healthMethods(new HealthTable())
if (!check) throw new Error('health has no Check')

test('a request is encoded like by protobuf', () => {
  for (const [service, hex] of [
    ['', ''],
    ['a', '0a0161'],
    ['é', '0a02c3a9'],
  ] as const) {
    assert.equal(Buffer.from(healthClientCodec.encode({ service })).toString('hex'), hex)
    assert.deepEqual(check.decode(Buffer.from(hex, 'hex')), { service })
  }
  assert.throws(() => healthClientCodec.encode({ service: 'x'.repeat(128) }), /128 bytes, at most 127/)
})

test('a request may be long and have unknown fields, and its last name applies', () => {
  const name = 'x'.repeat(300)
  for (const [hex, service] of [
    [`0aac02${Buffer.from(name).toString('hex')}`, name],
    ['0a0161 1001 0a0162', 'b'],
    ['1001 190000000000000000 2500000000 320161 0a0161', 'a'],
    ['0801', ''],
    ['0880 8080 8080 8080 8080 01', ''],
  ] as const) {
    assert.deepEqual(check.decode(Buffer.from(hex.replaceAll(' ', ''), 'hex')), { service })
  }
})

test('malformed bytes are rejected', () => {
  for (const [hex, error] of [
    ['0a', /1 bytes expected, 0 found/],
    ['0a0561', /5 bytes expected, 1 found/],
    ['0a01ff', /encoded data was not valid/],
    ['0b', /wire type 3/],
    ['ffffffffffffffffffffff', /at most 10 bytes/],
  ] as const) {
    assert.throws(() => check.decode(Buffer.from(hex, 'hex')), error, hex)
  }
})

test('an answer is encoded like by protobuf, and any bytes are a message or an error', () => {
  assert.deepEqual(check.encode({ status: 2 }), Uint8Array.of(8, 2))
  assert.deepEqual(healthClientCodec.decode(Uint8Array.of(8, 2)), { status: 2 })
  assert.deepEqual(healthClientCodec.decode(Uint8Array.of()), { status: 0 })
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), bytes => {
      try {
        assert.equal(typeof check.decode(bytes).service, 'string')
        assert.equal(typeof healthClientCodec.decode(bytes).status, 'number')
      } catch (error) {
        assert.ok(error instanceof Error && !(error instanceof assert.AssertionError), String(error))
      }
    }),
  )
})

test('a table reports only changes, and none after its drain', () => {
  const table = new HealthTable()
  let changes = 0
  const unsubscribe = table.subscribe(() => {
    changes += 1
  })
  assert.equal(table.get(''), undefined)
  table.set('', true)
  table.set('', true)
  assert.deepEqual([table.get(''), changes], [true, 1])
  table.drain()
  assert.deepEqual([table.get(''), table.get('other'), changes], [false, undefined, 2])
  table.set('', true)
  assert.deepEqual([table.get(''), changes], [false, 2])
  table.set('new', true)
  assert.equal(table.get('new'), false)
  unsubscribe()
  table.set('more', true)
  assert.equal(changes, 3)
})
