import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import {
  backdateMs,
  isOwnAuthority,
  issueAuthority,
  issueLeaf,
  objectIdentifier,
  time,
  unsignedInteger,
} from './issue.ts'

const dayMs = 86_400_000
const nowMs = Date.parse('2026-03-04T05:06:07.890Z')
const dnsNames = ['tollway-operator.system.svc', 'tollway-operator']
const authority = issueAuthority('tollway feed', { nowMs, expiresAtMs: nowMs + 365 * dayMs })
const leafOptions = { nowMs, expiresAtMs: nowMs + 30 * dayMs, dnsNames, usage: ['server', 'client'] } as const
const leaf = issueLeaf(authority, leafOptions)

test('Node reads the requested names, times, usages and issuer', () => {
  const [ca, own] = [new X509Certificate(authority.cert), new X509Certificate(leaf.cert)]
  assert.deepEqual([ca.ca, own.ca], [true, false])
  assert.match(ca.subject, /^CN=tollway feed [0-9a-f]{8}$/)
  assert.equal(own.subject, 'CN=tollway-operator.system.svc')
  assert.equal(own.issuer, ca.subject)
  assert.ok(own.checkIssued(ca) && own.verify(ca.publicKey) && ca.verify(ca.publicKey))
  assert.equal(own.subjectAltName, 'DNS:tollway-operator.system.svc, DNS:tollway-operator')
  assert.deepEqual(own.keyUsage, ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'])
  assert.equal(own.validFromDate.getTime(), Math.floor(nowMs / 1000) * 1000 - backdateMs)
  assert.equal(own.validToDate.getTime(), Math.ceil(nowMs / 1000) * 1000 + 30 * dayMs)
  assert.notEqual(own.serialNumber, ca.serialNumber)
  assert.equal(own.serialNumber.length, 32)
})

test('OpenSSL verifies a leaf strictly, and only for its purpose', t => {
  if (spawnSync('openssl', ['version']).status !== 0) {
    if (process.env['REQUIRE_SERVERS'] === '1') assert.fail('openssl is not on the PATH')
    return t.skip('openssl is not on the PATH')
  }
  const folder = temporaryFolder('issue')
  const write = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const ca = write('ca', authority.cert)
  const verify = (cert: string, purpose: string) => {
    const at = String(Math.floor(nowMs / 1000))
    const args = ['verify', '-x509_strict', '-attime', at, '-purpose', purpose, '-CAfile', ca]
    return spawnSync('openssl', [...args, write('leaf', cert)], { encoding: 'utf8' }).status
  }
  assert.deepEqual([verify(leaf.cert, 'sslserver'), verify(leaf.cert, 'sslclient')], [0, 0])
  const client = issueLeaf(authority, { ...leafOptions, usage: ['client'] })
  assert.notEqual(verify(client.cert, 'sslserver'), 0, 'a pod must not pass for the operator')
  assert.equal(verify(client.cert, 'sslclient'), 0)
  const stranger = issueAuthority('tollway feed', leafOptions)
  assert.notEqual(verify(issueLeaf(stranger, leafOptions).cert, 'sslclient'), 0)
})

test("only an authority of the operator's own form can issue, and only with its own key", () => {
  assert.ok(isOwnAuthority(new X509Certificate(authority.cert)))
  assert.ok(!isOwnAuthority(new X509Certificate(leaf.cert)))
  assert.throws(() => issueLeaf(leaf, leafOptions), /not a certificate that this operator made/)
  assert.throws(
    () => issueLeaf({ ...authority, key: leaf.key }, leafOptions),
    /key does not belong to the certificate/,
  )
})

test('every name and time in a certificate is the requested one', () => {
  const label = fc.stringMatching(/^[a-z][a-z0-9-]{0,61}[a-z0-9]$/)
  const names = fc.array(label, { minLength: 1, maxLength: 9 })
  const second = fc.integer({ min: Math.floor(nowMs / 1000), max: Date.parse('2120-01-01') / 1000 })
  fc.assert(
    fc.property(names, second, (dnsNames, expiresAt) => {
      const { cert } = issueLeaf(authority, { ...leafOptions, dnsNames, expiresAtMs: expiresAt * 1000 })
      const certificate = new X509Certificate(cert)
      assert.equal(certificate.subjectAltName, dnsNames.map(name => `DNS:${name}`).join(', '))
      assert.equal(certificate.validToDate.getTime(), expiresAt * 1000)
    }),
    { numRuns: 50 },
  )
})

test('DER encodings equal the examples of X.690', () => {
  const hex = (bytes: Buffer) => bytes.toString('hex')
  assert.equal(hex(objectIdentifier('2.5.4.3')), '0603550403')
  assert.equal(hex(objectIdentifier('1.2.840.113549')), '06062a864886f70d')
  assert.equal(hex(unsignedInteger(Buffer.of(0, 0))), '020100')
  assert.equal(hex(unsignedInteger(Buffer.of(0, 0x80))), '02020080')
  assert.equal(String(time(Date.parse('2049-12-31T23:59:59Z')).subarray(2)), '491231235959Z')
  assert.equal(String(time(Date.parse('2050-01-01T00:00:00Z')).subarray(2)), '20500101000000Z')
})
