import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRedisAddress, type RedisAddress } from './redis-address.ts'

/** `host port`, or the path; then user, password and database, `-` for each that is not given. */
function textOf({ endpoint, username = '-', password = '-', database }: RedisAddress): string {
  const place = 'path' in endpoint ? endpoint.path : `${endpoint.host} ${endpoint.port}`
  return `${place} | ${username} ${password} ${database ?? '-'}`
}

test('addresses are read by their form', () => {
  const table: readonly [text: string, socketType: 'unix' | 'tcp', auth: string, expected: string][] = [
    ['localhost:6379', 'tcp', '', 'localhost 6379 | - - -'],
    ['localhost:6379', 'unix', '', 'localhost 6379 | - - -'],
    ['[::1]:1', 'tcp', '', '::1 1 | - - -'],
    ['/run/redis.sock', 'tcp', '', '/run/redis.sock | - - -'],
    ['./redis.sock', 'unix', '', './redis.sock | - - -'],
    ['redis.sock', 'unix', '', 'redis.sock | - - -'],
    ['localhost:1', 'tcp', 'secret', 'localhost 1 | - secret -'],
    ['localhost:1', 'tcp', 'me:a:b', 'localhost 1 | me a:b -'],
    ['localhost:1', 'tcp', ':a', 'localhost 1 | - a -'],
    ['redis://localhost', 'unix', '', 'localhost 6379 | - - -'],
    ['redis://me:p%40ss@[::1]:7/2', 'tcp', '', '::1 7 | me p@ss 2'],
    ['redis://:pass@redis:7/', 'tcp', '', 'redis 7 | - pass -'],
    ['redis://me:pass@redis:7/2', 'tcp', 'other', 'redis 7 | - other 2'],
  ]
  for (const [text, socketType, auth, expected] of table) {
    assert.equal(textOf(parseRedisAddress(text, socketType, auth)), expected, text)
  }
})

test('what is no address is refused without being told, since it may hold a password', () => {
  const table: readonly [text: string, problem: RegExp][] = [
    ['', /must be host:port/],
    ['secret', /must be host:port/],
    ['localhost', /must be host:port/],
    ['me:secret@localhost:1', /must be host:port/],
    ['redis://me:secret@', /must be host:port/],
    ['redis://me:secret@host/x', /must be host:port/],
    ['redis://me:secret@host:1/2?x=y', /must be host:port/],
    ['redis://me:sec%ret@host', /percent-encoded/],
    ['rediss://me:secret@host', /TLS/],
    ['host:0', /port of Redis is 0/],
    ['host:65536', /port of Redis is 65536; it must be 1 to 65535/],
  ]
  for (const [text, problem] of table) {
    assert.throws(
      () => parseRedisAddress(text, 'tcp', ''),
      error => {
        assert.match((error as Error).message, problem)
        assert.doesNotMatch((error as Error).message, /sec.?ret/)
        return true
      },
      text,
    )
  }
})
