import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as settings from './settings.ts'

const noFile = (path: string): string => {
  throw new Error(`no such file: ${path}`)
}

test('durations are written as in Go', () => {
  const cases: [string, number | undefined][] = [
    ['10s', 10_000],
    ['1m30s', 90_000],
    ['1.5h', 5_400_000],
    ['.5s', 500],
    ['250us', 0.25],
    ['0', 0],
    ['10', undefined],
    ['-1s', undefined],
    ['10 s', undefined],
    ['s', undefined],
    ['', undefined],
    ['480h', 480 * 3_600_000],
    ['481h', undefined],
  ]
  for (const [text, expected] of cases) assert.equal(settings.durationMs.parse(text), expected, text)
  assert.equal(settings.durationAtLeast(10).parse('9ms'), undefined)
  assert.equal(settings.durationAtLeast(10).parse('10ms'), 10)
})

test('booleans are written as in Go', () => {
  assert.equal(settings.boolean.parse('T'), true)
  assert.equal(settings.boolean.parse('0'), false)
  assert.equal(settings.boolean.parse('yes'), undefined)
})

test('pairs keep the colons of their values and reject duplicate names', () => {
  assert.deepEqual(
    [...(settings.pairs.parse('a:b:c, d:e') ?? [])],
    [
      ['a', 'b:c'],
      ['d', 'e'],
    ],
  )
  assert.equal(settings.pairs.parse('a:1,a:2'), undefined)
  assert.equal(settings.pairs.parse(':1'), undefined)
})

test('an address may leave out the host, and may be of version 6', () => {
  assert.deepEqual(settings.hostPort.parse(':9090'), { host: '', port: 9090 })
  assert.deepEqual(settings.hostPort.parse('[::1]:80'), { host: '::1', port: 80 })
  assert.equal(settings.hostPort.parse('host:70000'), undefined)
})

const table = settings.settingsTable({
  port: { name: 'PORT', kind: settings.integer(0, 65_535), fallback: '8080', help: 'Port.' },
  auth: {
    name: 'KVSTORE_AUTH',
    aliases: ['REDIS_AUTH'],
    kind: settings.text,
    fallback: '',
    help: 'Password.',
    secret: true,
  },
})

test('a setting has its default, its name and its aliases', () => {
  assert.deepEqual(settings.readSettings(table, {}, noFile), { value: { port: 8080, auth: '' } })
  assert.deepEqual(settings.readSettings(table, { REDIS_AUTH: 'x', PORT: '1' }, noFile), {
    value: { port: 1, auth: 'x' },
  })
})

test('every malformed setting is reported with its name, its value and the allowed values', () => {
  const result = settings.readSettings(table, { PORT: 'eighty', REDIS_AUTH: 'x', KVSTORE_AUTH: 'y' }, noFile)
  assert.deepEqual(result, {
    problems: [
      { name: 'PORT', message: '"eighty" is not allowed: a whole number from 0 to 65535' },
      {
        name: 'KVSTORE_AUTH',
        message: 'KVSTORE_AUTH and REDIS_AUTH are the same setting and have different values; keep one',
      },
    ],
  })
})

test('a secret may be in a file, whose last line end is ignored', () => {
  const read = (path: string) => (path === '/run/secret' ? 'pass \n' : noFile(path))
  assert.deepEqual(settings.readSettings(table, { REDIS_AUTH_FILE: '/run/secret' }, read), {
    value: { port: 8080, auth: 'pass ' },
  })
})

test('a setting without effect is found by the name that sets it, and the documentation says why', () => {
  const table = settings.settingsTable({
    pool: {
      name: 'NEW_POOL',
      aliases: ['OLD_POOL'],
      kind: settings.integer(1, 9),
      fallback: '2',
      help: 'The size of the pool.',
      noEffect: 'there is no pool',
    },
    port: { name: 'PORT', kind: settings.integer(0, 9), fallback: '1', help: 'The port.' },
  })
  const find = (env: Readonly<Record<string, string>>) => settings.findIneffective(table, env)
  assert.deepEqual(find({ PORT: '3', OLD_POOL: '' }), [])
  assert.deepEqual(find({ PORT: '3', OLD_POOL: '2' }), [{ name: 'OLD_POOL', reason: 'there is no pool' }])
  assert.match(settings.describeSettings(table), /\| The size of the pool. No effect: there is no pool. \|/)
})
