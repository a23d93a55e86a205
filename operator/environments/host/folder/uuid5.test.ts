import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tollwayNamespace, uuid5 } from './uuid5.ts'

test('uuid5 gives the example of RFC 9562, appendix A.4', () => {
  const dns = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
  assert.equal(uuid5(dns, 'www.example.com'), '2ed6657d-e927-568b-95e1-2665a8aea6a2')
})

test('the uid of a resource never changes', () => {
  const uid = uuid5(tollwayNamespace, 'RateLimitConfig/shop/checkout')
  assert.equal(uid, uuid5(tollwayNamespace, 'RateLimitConfig/shop/checkout'))
  assert.notEqual(uid, uuid5(tollwayNamespace, 'RateLimitConfig/shop/checkout2'))
  assert.match(uid, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})
