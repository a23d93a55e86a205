import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRedisAddress } from './redis-address.ts'

type SocketType = 'unix' | 'tcp'

/**
 * Returns `host port` or the path, and then user, password and database, with `-` for each that is missing.
 */
function describeSingle(url: string, socketType: SocketType, auth: string): string {
  const address = parseRedisAddress({ type: 'single', url, socketType, auth })
  assert.equal(address.type, 'single')
  const { endpoint, secure } = address
  const { username = '-', password = '-', database } = address.login
  const place = 'path' in endpoint ? endpoint.path : `${endpoint.host} ${endpoint.port}`
  return `${place} | ${username} ${password} ${database ?? '-'}${secure ? ' TLS' : ''}`
}

test('addresses are parsed by their form', () => {
  const table: readonly [text: string, socketType: SocketType, auth: string, expected: string][] = [
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
    ['rediss://me:pass@redis/2', 'tcp', '', 'redis 6379 | me pass 2 TLS'],
    ['redis://me:pass@redis:7/2', 'tcp', 'other', 'redis 7 | - other 2'],
  ]
  for (const [text, socketType, auth, expected] of table) {
    assert.equal(describeSingle(text, socketType, auth), expected, text)
  }
})

test('an invalid address is rejected without being quoted, since it may contain a password', () => {
  const table: readonly [text: string, problem: RegExp][] = [
    ['', /must be host:port/],
    ['secret', /must be host:port/],
    ['localhost', /must be host:port/],
    ['me:secret@localhost:1', /must be host:port/],
    ['redis://me:secret@', /must be host:port/],
    ['redis://me:secret@host/x', /must be host:port/],
    ['redis://me:secret@host:1/2?x=y', /must be host:port/],
    ['redis://me:sec%ret@host', /percent-encoded/],
    ['rediss://me:secret@host/x', /must be host:port/],
    ['host:0', /port of Redis is 0/],
    ['host:65536', /port of Redis is 65536; it must be 1 to 65535/],
  ]
  for (const [text, problem] of table) {
    assert.throws(
      () => describeSingle(text, 'tcp', ''),
      error => {
        assert.match((error as Error).message, problem)
        assert.doesNotMatch((error as Error).message, /sec.?ret/)
        return true
      },
      text,
    )
  }
})

test('sentinels and clusters are lists', () => {
  const address = (type: string, url: string) =>
    parseRedisAddress({ type, url, socketType: 'unix', auth: 'me:pass' })
  const login = { username: 'me', password: 'pass' }
  assert.deepEqual(address('Sentinel', 'my-master, a:1,[::1]:2'), {
    type: 'sentinel',
    login,
    master: 'my-master',
    sentinels: [
      { host: 'a', port: 1 },
      { host: '::1', port: 2 },
    ],
  })
  assert.deepEqual(address('CLUSTER', 'a:1'), { type: 'cluster', login, seeds: [{ host: 'a', port: 1 }] })

  const words =
    'Expected master name and a list of urls for the sentinels, in the format: ' +
    '<redis master name>,<sentinel1>,...,<sentineln>'
  assert.throws(() => address('sentinel', 'my-master'), { message: words })
  assert.throws(() => address('sentinel', 'my-master,secret'), /number 1 of them is not$/)
  assert.throws(() => address('sentinel', 'a:1,a:2'), /first item must be the name of the master/)
  assert.throws(() => address('cluster', 'a:1,secret'), /cluster must be host:port each; number 2 of them/)
  assert.throws(() => address('ring', 'a:1'), { message: 'Unrecognized redis type ring' })
})
