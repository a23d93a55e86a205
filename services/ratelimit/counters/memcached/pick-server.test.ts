import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pickServer } from './server-list.ts'

test('the index is the IEEE CRC-32 of the bytes, modulo the number of servers', () => {
  const prime = 1_000_003
  // The first value is the algorithm's published check value; Python's zlib computed the others.
  const table: readonly [string, number][] = [
    ['123456789', 0xcbf43926],
    ['The quick brown fox jumps over the lazy dog', 0x414fa339],
    ['a', 0xe8b7be43],
    ['abc', 0x352441c2],
    ['', 0],
    ['domain_key_value_1234', 0xb5ea4ec5],
    ['domain_schlüssel_1234', 0xa8fdf9b2],
  ]
  for (const [key, crc] of table) {
    assert.equal(pickServer(key, prime), crc % prime, key)
    assert.equal(pickServer(key, 3), crc % 3, key)
    assert.equal(pickServer(key, 1), 0)
  }
})

test('keys are distributed evenly for any number of servers', () => {
  const keys = 30_000
  for (const servers of [2, 3, 5, 7, 16]) {
    const counts: number[] = Array(servers).fill(0)
    for (let user = 0; user < keys; user += 1) {
      const place = pickServer(`shop_user_${user}_path_/cart_1700000040`, servers)
      counts[place] = (counts[place] ?? 0) + 1
    }
    const share = keys / servers
    for (const count of counts) assert.ok(Math.abs(count - share) < 0.1 * share, `${servers}: ${counts}`)
  }
})
