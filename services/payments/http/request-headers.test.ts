import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accepts, chooseRequestId, readApiKey } from './request-headers.ts'
import { basic } from './testing/api-under-test.ts'

test('an Accept header accepts JSON or not', () => {
  const takes = [
    '',
    '*/*',
    'application/json',
    'text/html, APPLICATION/JSON;q=0.5',
    'application/*',
    'a/b,*/*;q=0.1',
  ]
  const rejects = [
    'text/html',
    'application/json;q=0',
    'application/json; q=0.000',
    'application/xml, text/*',
    ',',
  ]
  assert.ok(accepts('application/json', undefined))
  for (const accept of takes) assert.ok(accepts('application/json', accept), accept)
  for (const accept of rejects) assert.ok(!accepts('application/json', accept), accept)
  assert.ok(accepts('text/csv', 'text/*') && !accepts('text/csv', 'application/json'))
})

test('an API key is the password of a user without a name', () => {
  assert.equal(readApiKey(basic('key')), 'key')
  assert.equal(readApiKey(`bAsIc   ${btoa(':a:b')}`), 'a:b')
  for (const header of [undefined, '', 'Basic', 'Basic !', `Basic ${btoa('a:b')}`, basic(''), 'Bearer x']) {
    assert.equal(readApiKey(header), null, header)
  }
})

test('a harmless request id is kept, and any other is replaced', () => {
  const random = (count: number) => new Uint8Array(count)
  const own = chooseRequestId(undefined, 0, random)
  for (const id of ['a', '0197f3a2-5c00-7a10-8b3c-5d2e9f014a01', '4100000000000002', 'x'.repeat(128)]) {
    assert.equal(chooseRequestId(id, 0, random), id)
  }
  for (const id of [
    '',
    ' ',
    'ø',
    'a\nb',
    '4100000000000001',
    'card=4100-0000-0000-0001',
    '1'.repeat(20),
    ['a'],
  ]) {
    assert.equal(chooseRequestId(id, 0, random), own, String(id))
  }
})
