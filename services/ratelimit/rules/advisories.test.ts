import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { describeUnlikelyValue } from './advisories.ts'
import { compileWildcard, matchesWildcard } from './wildcard.ts'

describe('a value that reads like a regular expression has its wildcard', () => {
  for (const [value, wildcard, example] of [
    ['^/api/v[0-9]+/.*$', '/api/v*/*', '/api/v2/users'],
    ['/api/.*', '/api/*', '/api/users'],
    ['^/api', '/api*', '/api/users'],
    ['/users/\\d+/orders', '/users/*/orders', '/users/42/orders'],
    ['/users/[^/]+', '/users/*', '/users/alice'],
    ['.*\\.php$', '*.php', '/index.php'],
    ['/(cart|pay)/items', '/*/items', '/pay/items'],
    ['^/(?:a|b)$', '/*', '/a'],
    ['/v[0-9]{1,2}/x', '/v*/x', '/v12/x'],
  ] as const)
    test(value, () => {
      const message = `"${value}" is compared as text, not as a regular expression`
      const advice = `write "${wildcard}", in which each * matches any text`
      assert.equal(describeUnlikelyValue('path', value), `${message}; ${advice}`)
      assert.ok(matchesWildcard(compileWildcard(wildcard), example))
    })

  test('but none if no wildcard is as narrow', () => {
    for (const value of ['.*', '^a?b$', '/a/(b|(c|d))'])
      assert.equal(
        describeUnlikelyValue('path', value),
        `"${value}" is compared as text, not as a regular expression`,
      )
  })
})

describe('a value that reads like a range of addresses has the way to write it', () => {
  const envoy =
    'let Envoy send the range: the action masked_remote_address, whose key and value are masked_remote_address and the range'
  for (const [value, advice] of [
    ['10.0.0.0/8', `write 10.* for these addresses, or ${envoy}`],
    ['192.168.0.0/16', `write 192.168.* for these addresses, or ${envoy}`],
    ['203.0.113.0/24', `write 203.0.113.* for these addresses, or ${envoy}`],
    ['172.16.0.0/12', envoy],
    ['2001:db8::/64', envoy],
    ['2001:DB8:0:0:0:0:0:0/32', envoy],
    ['::/0', envoy],
    ['::ffff:10.0.0.0/104', envoy],
  ] as const)
    test(value, () =>
      assert.equal(
        describeUnlikelyValue('remote_address', value),
        `"${value}" matches only this text, not the addresses of the range; ${advice}`,
      ),
    )
})

test('the advice for a resource is match', () => {
  assert.equal(
    describeUnlikelyValue('remote_address', '10.0.0.0/8', 'camel'),
    '"10.0.0.0/8" matches only this text, not the addresses of the range; write match: {cidr: ["10.0.0.0/8"]}',
  )
  assert.match(
    `${describeUnlikelyValue('path', '/a/.*', 'camel')}`,
    /; match\.regex compares with a regular expression$/,
  )
})

test('a scheme of Authorization in another case than clients send has the usual one', () => {
  for (const [value, usual] of [
    ['bearer *', 'Bearer *'],
    ['BEARER *', 'Bearer *'],
    ['basic abc*', 'Basic abc*'],
    ['bearer*', 'Bearer*'],
  ] as const)
    assert.match(
      describeUnlikelyValue('authorization', value) ?? '',
      new RegExp(
        `^"${value.replaceAll('*', '\\*')}" does not match "${usual.slice(0, usual.search(/[ *]/))} …".*; write "${usual.replaceAll('*', '\\*')}"`,
      ),
    )
})

describe('a value that can match as meant has no warning', () => {
  for (const [key, value] of [
    ['path', ''],
    ['path', '/'],
    ['path', '*'],
    ['path', '/api/*'],
    ['path', '/api/v1/*/items'],
    ['path', '/.well-known/*'],
    ['path', '/a.b/c-d_e~f'],
    ['path', '/search?q=*'],
    ['path', '/items[0]'],
    ['path', '/a(b)'],
    ['path', '/price-$'],
    ['path', '/8.8.8.8/32/x'],
    ['host', 'api.*'],
    ['host', '*.example.com'],
    ['host', '[2001:db8::1]:443'],
    ['remote_address', '10.0.0.1'],
    ['remote_address', '10.*'],
    ['remote_address', '2001:db8::1'],
    ['remote_address', '2001:db8:*'],
    ['masked_remote_address', '10.0.0.0/8'],
    ['masked_remote_address', '2001:db8::/64'],
    ['build', '1.2.3/45'],
    ['date', '24/12'],
    ['mac', '00:1a:2b:3c:4d:5e'],
    ['authorization', 'Bearer *'],
    ['authorization', 'Basic *'],
    ['role', 'bearer'],
    ['role', 'basic-user*'],
    ['plan', 'basic'],
    ['currency', 'US$'],
    ['user_agent', 'Mozilla/5.0 (X11; Linux x86_64)*'],
    ['content_type', 'application/vnd.api+json'],
    ['rank', 'C++'],
    ['file', 'C:\\Users\\alice'],
    ['user', 'CORP\\dave'],
    ['text', `^/${'a'.repeat(1_000)}`],
  ] as const)
    test(`${key}: ${value}`, () => assert.equal(describeUnlikelyValue(key, value), undefined))
})
