import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseServerList } from './server-list.ts'

test('a list keeps its order', () => {
  const table: readonly [string, unknown][] = [
    ['cache:11211', [{ host: 'cache', port: 11211 }]],
    [
      'b:2, a:1,b:2',
      [
        { host: 'b', port: 2 },
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
    ],
    ['[::1]:11211', [{ host: '::1', port: 11211 }]],
    ['/run/memcached.sock', [{ path: '/run/memcached.sock' }]],
  ]
  for (const [text, endpoints] of table) {
    assert.deepEqual(
      parseServerList(text).map(({ endpoint }) => endpoint),
      endpoints,
    )
  }
})

test('an invalid address is rejected with its position', () => {
  const rejected: readonly [string, RegExp][] = [
    ['', /^server 1 is ""; it must be a list of host:port/],
    ['a:1,,b:2', /^server 2 is ""/],
    ['cache', /^server 1 is "cache"/],
    ['cache:0', /^server 1 is "cache:0"/],
    ['cache:65536', /^server 1 is "cache:65536"/],
    ['::1:11211', /^server 1 is/],
    ['a b:1', /^server 1 is/],
    [Array(1_001).fill('a:1').join(','), /^the list has 1001 servers; it must have 1 to 1000$/],
  ]
  for (const [text, message] of rejected) assert.throws(() => parseServerList(text), { message })
  assert.throws(() => parseServerList([]), /the list has 0 servers/)
})
