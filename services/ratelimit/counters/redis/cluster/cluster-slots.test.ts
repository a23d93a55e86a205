import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RedisReply } from '../resp/reply-parser.ts'
import { readClusterSlots, readRedirect } from './slot-owners.ts'

/** Parses a cluster with one range of slots, and returns `host:port` of its master. */
function masterOf(node: RedisReply): string {
  const slots = readClusterSlots([[0, 16_383, node, ['replica', 9]]], 'asked')
  if ('problem' in slots) return slots.problem
  const { ranges, covered } = slots
  const [range] = ranges
  assert.equal(covered, 16_384)
  return `${range?.master.host}:${range?.master.port}`
}

test('the masters are parsed from each form of a node', () => {
  const wrong = 'the reply to CLUSTER SLOTS has an item that is not a slot range'
  const table: readonly [node: RedisReply, expected: string][] = [
    [['10.0.0.1', 7000, 'id'], '10.0.0.1:7000'],
    [['10.0.0.1', 7000, 'id', ['hostname', 'redis-0']], '10.0.0.1:7000'],
    [['redis-0', 7000, 'id', ['ip', '10.0.0.1']], 'redis-0:7000'],
    [['?', 7000, 'id', ['ip', '10.0.0.1']], '10.0.0.1:7000'],
    [['?', 7000, 'id', []], 'asked:7000'],
    [['', 7000, 'id'], 'asked:7000'],
    [[null, 7000, 'id'], 'asked:7000'],
    [[null, 7000, 'id', ['ip', '10.0.0.1']], '10.0.0.1:7000'],
    [['10.0.0.1', 0, 'id'], wrong],
    [['10.0.0.1', 65_536, 'id'], wrong],
    [['10.0.0.1'], wrong],
    ['10.0.0.1', wrong],
  ]
  for (const [node, expected] of table) assert.equal(masterOf(node), expected, JSON.stringify(node))
})

test('a reply that is not a list of slots is rejected', () => {
  const table: readonly [RedisReply, string][] = [
    [
      { error: 'ERR This instance has cluster support disabled' },
      'ERR This instance has cluster support disabled',
    ],
    [null, 'the reply to CLUSTER SLOTS is not a list'],
    [[[0, 16_384, ['a', 1]]], 'the reply to CLUSTER SLOTS has an item that is not a slot range'],
    [[['0', 1, ['a', 1]]], 'the reply to CLUSTER SLOTS has an item that is not a slot range'],
  ]
  for (const [reply, problem] of table) assert.deepEqual(readClusterSlots(reply, 'asked'), { problem })
  assert.deepEqual(readClusterSlots([], 'asked'), { ranges: [], covered: 0 })
})

test('redirections are parsed', () => {
  const table: readonly [error: string, expected: string][] = [
    ['MOVED 3999 10.0.0.1:7000', 'moved 3999 10.0.0.1 7000'],
    ['ASK 3999 redis-0:7000', 'ask 3999 redis-0 7000'],
    ['MOVED 3999 ::1:7000', 'moved 3999 ::1 7000'],
    ['MOVED 3999 :7000', 'moved 3999 asked 7000'],
    ['MOVED 3999 ?:7000', 'moved 3999 asked 7000'],
    ['MOVED 3999', '-'],
    ['MOVED 3999 10.0.0.1:65536', '-'],
    ['MOVED 16384 10.0.0.1:7000', '-'],
    ['CLUSTERDOWN Hash slot not served', '-'],
    ['TRYAGAIN Multiple keys request during rehashing of slot', '-'],
  ]
  for (const [error, expected] of table) {
    const redirect = readRedirect(error, 'asked')
    const { asking, slot, host, port } = redirect ?? {}
    const found = redirect === undefined ? '-' : `${asking ? 'ask' : 'moved'} ${slot} ${host} ${port}`
    assert.equal(found, expected, error)
  }
})
