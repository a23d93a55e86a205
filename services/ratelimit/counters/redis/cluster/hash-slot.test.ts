import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { freePorts } from '../../../../../test/support/free-ports.ts'
import { type RedisServer, startRedis } from '../../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../../test/support/require-server.ts'
import { findHashSlot } from './hash-slot.ts'

test('keys have the slots of Redis, with and without a hash tag', () => {
  // 0x31c3 is the check value of CRC16 (XMODEM).
  assert.equal(findHashSlot('123456789'), 0x31c3)
  const equal: readonly [string, string][] = [
    ['{user1000}.following', 'user1000'],
    ['foo{{bar}}zap', '{bar'],
    ['foo{bar}{zap}', 'bar'],
    ['ä{ö}ü', 'ö'],
  ]
  for (const [key, same] of equal) assert.equal(findHashSlot(key), findHashSlot(same), key)
  assert.notEqual(findHashSlot('foo{}{bar}'), findHashSlot('bar'))
  assert.equal(findHashSlot(''), 0)
})

describe('slots', { skip: missingProgram('redis-server') }, () => {
  test('the slot of any key is that of Redis', async t => {
    const [busPort] = await freePorts(1)
    const redis: RedisServer = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`])
    t.after(() => redis.stop())
    const character = fc.oneof(fc.constantFrom('{', '}', 'a', 'ß', '€'), fc.string({ unit: 'grapheme' }))
    const keys = fc
      .sample(fc.array(character, { maxLength: 8 }), 60)
      .map(parts => parts.join('').replaceAll('\0', ''))
    await Promise.all(
      keys.map(async key => {
        assert.equal(
          String(findHashSlot(key)),
          await redis.command('CLUSTER', 'KEYSLOT', key),
          JSON.stringify(key),
        )
      }),
    )
  })
})
