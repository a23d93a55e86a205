import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cidrs } from '../net/cidr.ts'
import { AddressPolicy } from './address-policy.ts'
import { checkWebhookUrl } from './webhook-url.ts'

const strict = new AddressPolicy([], false)

const rejected = `
  0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.8.8.8 169.254.169.254
  172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255
  198.51.100.1 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
  :: ::1 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 0:0:0:0:0:ffff:10.0.0.1 ::FFFF:169.254.169.254
  ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 100::1 2001::1 2001:0:53aa:64c:0:0:0:1
  2001:db8::1
  2002:7f00:1::1 2002:a9fe:a9fe::1 3fff::1 fc00::1 fd12:3456::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 5f00::1
  ::ffff:0:127.0.0.1 example.com 1.2.3 127.1 2130706433
`
const public_ = `
  1.1.1.1 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.1.1 172.15.1.1
  172.32.0.1 192.0.1.1 192.167.1.1 198.17.1.1 198.20.1.1 223.255.255.255 ::ffff:1.1.1.1
  2606:4700::1 2a00:1450:4001::1 2001:4860:4860::8888 2003::1
`
const words = (text: string) => text.trim().split(/\s+/)

test('only public addresses are allowed', () => {
  for (const address of words(rejected)) assert.equal(strict.allows(address), false, address)
  for (const address of words(public_)) assert.equal(strict.allows(address), true, address)
})

test('configured networks are allowed', () => {
  const allowed = cidrs.parse('10.1.0.0/16, fd00:1::/32,127.0.0.1/32')
  assert.ok(allowed)
  const policy = new AddressPolicy(allowed, false)
  for (const address of words('10.1.2.3 ::ffff:10.1.2.3 fd00:1::9 127.0.0.1 1.1.1.1')) {
    assert.equal(policy.allows(address), true, address)
  }
  for (const address of words('10.2.0.1 fd00:2::9 127.0.0.2 ::1')) {
    assert.equal(policy.allows(address), false, address)
  }
  assert.deepEqual(cidrs.parse(''), [])
  for (const wrong of words('10.0.0.0 10.0.0.0/33 fd00::/129 example.com/8 10.0.0.0/8,')) {
    assert.equal(cidrs.parse(wrong), undefined, wrong)
  }
})

test('a URL of another scheme, with a user or with a private address is rejected by its text', () => {
  const table: readonly [string, RegExp | null][] = [
    ['https://example.com/hook?a=b', null],
    ['https://example.com:8443', null],
    ['https://1.1.1.1/', null],
    ['http://example.com/', /https/],
    ['ftp://example.com/', /not an address/],
    ['example.com', /not an address/],
    ['https://joe@example.com/', /user/],
    ['https://:secret@example.com/', /password/],
    ['https://example.com/#a', /fragment/],
    ['https://127.0.0.1/', /not (a )?public/],
    ['https://0x7f.1/', /127\.0\.0\.1/],
    ['https://2130706433/', /127\.0\.0\.1/],
    ['https://0177.0.0.1/', /127\.0\.0\.1/],
    ['https://127。0。0。1/', /127\.0\.0\.1/],
    ['https://[::1]/', /::1/],
    ['https://[::ffff:169.254.169.254]/', /a9fe/],
    ['https://[64:ff9b::7f00:1]/', /64:ff9b/],
  ]
  for (const [text, expected] of table) {
    const checked = checkWebhookUrl(text, strict)
    if (expected === null) assert.ok('url' in checked, text)
    else assert.match('problem' in checked ? checked.problem : 'allowed', expected, text)
  }
  assert.ok('url' in checkWebhookUrl('http://example.com', new AddressPolicy([], true)))
})
