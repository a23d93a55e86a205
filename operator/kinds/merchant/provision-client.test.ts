import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { TlsFiles } from '@tollway/chassis/net/tls.ts'
import { hashApiKey, newApiKey } from '@tollway/payments/domain/ids.ts'
import { createProvisionServer } from '../../../services/payments/http/servers/provision-server.ts'
import { payAt } from '../../../services/payments/http/testing/api-under-test.ts'
import { storeResult, verifyBooks } from '../../../services/payments/operations/verify-books.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { issueAuthority, issueLeaf } from '../../certificates/issue.ts'
import {
  type ProvisioningUnderTest,
  someAccount,
  startProvisioning,
} from '../../testing/start-provisioning.ts'
import { createProvisionClient } from './provision-client.ts'
import type { ProvisionRequest } from './provisioner.ts'

const signal = new AbortController().signal
const lifetime = { nowMs: Date.now(), expiresAtMs: Date.now() + 3_600_000 }
const podName = 'pods.tollway.tollway.svc'
const operatorName = 'tollway-operator.tollway.svc'

const request = (changes: Partial<ProvisionRequest> = {}): ProvisionRequest => ({
  profile: someAccount().profile,
  appName: 'till',
  keyHash: hashApiKey(newApiKey(randomBytes)),
  otherKeysExpireInMs: null,
  users: [],
  webhooks: [],
  ...changes,
})

describe('the client of a real payments service', () => {
  let service: ProvisioningUnderTest
  before(async () => {
    service = await startProvisioning()
  })
  after(() => service?.close())

  it('gets the same result for each repeated request', async () => {
    const { provisioner } = service
    const asked = request()
    const first = await provisioner.provision('again', asked, signal)
    assert.deepEqual(await provisioner.provision('again', asked, signal), first)
    assert.equal(await service.merchantsOf('again'), 1)
    await provisioner.close('again', signal)
    await provisioner.close('again', signal)
    await provisioner.close('never-was', signal)
  })

  it('reports fields by their names in the resource', async () => {
    const { provisioner } = service
    const webhooks = [{ url: 'nowhere', events: [], secrets: ['a', 'b', 'c'] }]
    const { profile } = request()
    const wrong = request({ webhooks, profile: { ...profile, currency: 'USD' } })
    const answer = await provisioner.provision('wrong', wrong, signal)
    assert.ok('rejected' in answer)
    assert.equal(answer.rejected.why, 'invalid')
    const paths = answer.rejected.problems.map(({ path }) => path).sort()
    assert.deepEqual(paths, ['spec.currency', 'spec.webhooks[0].secretRef', 'spec.webhooks[0].url'])
  })

  it('adopts a merchant only with one of its keys', async () => {
    const { provisioner } = service
    const key = newApiKey(randomBytes)
    const made = await provisioner.provision('first', request({ keyHash: hashApiKey(key) }), signal)
    assert.ok('merchantId' in made)
    const { merchantId } = made
    for (const keyHash of [null, hashApiKey(newApiKey(randomBytes))]) {
      const answer = await provisioner.provision('thief', request({ adopt: { merchantId, keyHash } }), signal)
      assert.ok('rejected' in answer)
      assert.deepEqual(
        answer.rejected.problems.map(({ path }) => path),
        ['spec.adopt.merchantId'],
      )
    }
    assert.equal(await service.merchantsOf('thief'), 0)
  })

  it('reads the balances of merchants, and the result of the last proof of the books', async () => {
    const { provisioner, payments, storage } = service
    const made = await provisioner.provision('with-balance', request(), signal)
    assert.ok('publicKey' in made)
    await payAt({ payments }, made, { amount: 1_234n, currency: 'EUR' })
    const dkk = (amount: string) => ({ currency: 'DKK', amount, exponent: 2 })
    const pending = [{ currency: 'EUR', amount: '1234', exponent: 2 }]
    const first = await provisioner.readBooks(['with-balance', 'unknown'])
    assert.deepEqual(first.balances, new Map([['with-balance', { available: dkk('0'), pending }]]))
    assert.equal(first.lastVerify, undefined)
    await storeResult(storage, await verifyBooks(storage), { beganMs: 1_000, endedMs: 3_000 })
    const { lastVerify } = await provisioner.readBooks([])
    assert.ok(lastVerify)
    assert.deepEqual([lastVerify.beganMs, lastVerify.endedMs, lastVerify.findings], [1_000, 3_000, 0])
    assert.deepEqual(lastVerify.shown, [])
    assert.ok(lastVerify.records['transactions'] === 1, JSON.stringify(lastVerify.records))
  })

  it('shows its certificate, and verifies that of the service', async t => {
    const place = temporaryFolder('provision-tls')
    const authority = issueAuthority('a', lifetime)
    const leaf = (name: string, usage: readonly ('server' | 'client')[]) =>
      issueLeaf(authority, { ...lifetime, dnsNames: [name], usage })
    const url = await serveTls(t, service, place, {
      ...leaf(podName, ['client', 'server']),
      ca: authority.cert,
    })
    const as = (name: string, serverName = podName) => {
      const identity = leaf(name, ['server', 'client'])
      const client = createProvisionClient({ url, tls: () => ({ ca: authority.cert, identity, serverName }) })
      t.after(client.end)
      return client.provision(name, request(), signal)
    }
    assert.ok('merchantId' in (await as(operatorName)))
    await assert.rejects(as(podName), /403 forbidden: The client certificate has no permission to provision/)
    await assert.rejects(
      as(operatorName, 'other.tollway.svc'),
      /payments service at https:.*: TLS failed: .*other\.tollway\.svc/,
    )
    const stranger = issueAuthority('b', lifetime)
    const identity = issueLeaf(stranger, { ...lifetime, dnsNames: [operatorName], usage: ['client'] })
    const tls = { ca: authority.cert, identity, serverName: podName }
    const client = createProvisionClient({ url, tls: () => tls })
    t.after(client.end)
    await assert.rejects(client.provision('stranger', request(), signal), /TLS failed|closed/)
    assert.equal(await service.merchantsOf('stranger'), 0)
    const reader = createProvisionClient({
      url,
      tls: () => ({ ca: authority.cert, identity: leaf(podName, ['client']), serverName: podName }),
    })
    t.after(reader.end)
    await assert.rejects(reader.readBooks([]), /403 forbidden/)
  })
})

it('leaves out fields that are not set, which an earlier version may not know', async t => {
  let sent = ''
  const server = createServer((received, response) => {
    received.on('data', bytes => (sent += bytes))
    received.on('end', () => response.writeHead(503).end())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = createProvisionClient({ url: new URL(`http://127.0.0.1:${port}`) })
  t.after(client.end)
  const profile = { ...request().profile, name: null, bank: null }
  await assert.rejects(client.provision('uid', request({ profile }), signal), /503/)
  const { merchant } = JSON.parse(sent)
  assert.deepEqual(
    Object.keys(profile).filter(field => !(field in merchant)),
    ['name', 'bank'],
  )
})

async function serveTls(
  t: TestContext,
  { payments, clock }: ProvisioningUnderTest,
  place: string,
  files: Readonly<Record<'cert' | 'key' | 'ca', string>>,
): Promise<URL> {
  const file = (name: 'cert' | 'key' | 'ca') => {
    const path = join(place, name)
    writeFileSync(path, files[name])
    return { setting: name, path }
  }
  const tls = new TlsFiles({
    cert: file('cert'),
    key: file('key'),
    ca: file('ca'),
    onReloadFailed: text => assert.fail(text),
  })
  const server = createProvisionServer({
    payments,
    clock,
    randomBytes,
    tls,
    log: silentLog,
    onAnswer: () => {},
    token: null,
    demandsCertificate: true,
    clientName: operatorName,
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(async () => {
    await server.close(1_000)
    tls.close()
  })
  return new URL(`https://127.0.0.1:${port}`)
}

/** Each row: a name, the status and body of an answer, and the expected error. */
const odd: readonly [string, number, string, RegExp][] = [
  ['no JSON', 200, 'hello', /^the payments service answers 200$/],
  ['an answer without ids', 200, '{"merchantId": "a"}', /^the payments service answers 200$/],
  ['a rejected token', 401, '{"code":"unauthorized","message":"No."}', /answers 401 unauthorized: No\.$/],
  ['a failure', 503, '{"code":"unavailable","message":"Later."}', /answers 503 unavailable: Later\.$/],
  ['a body that is too long', 200, 'x'.repeat(70_000), /answers more than 65536 bytes/],
]

for (const [name, status, body, message] of odd) {
  it(`rejects ${name} as an answer`, async t => {
    const server = createServer((_, response) => response.writeHead(status).end(body))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const { port } = server.address() as AddressInfo
    const client = createProvisionClient({ url: new URL(`http://127.0.0.1:${port}`), token: () => 'secret' })
    t.after(client.end)
    const asked = request()
    await assert.rejects(client.provision('a', asked, signal), (error: Error) => {
      assert.match(error.message, message)
      assert.ok(!error.message.includes('secret') && !error.message.includes(asked.keyHash))
      return true
    })
  })
}

const oddBooks: readonly [name: string, status: number, body: string, message: RegExp][] = [
  ['an answer of an earlier version', 404, '{"code":"not_found"}', /has an earlier version$/],
  ['an answer without books', 200, '{}', /answers 200$/],
  ['a failure', 503, '{"code":"unavailable","message":"Later."}', /answers 503 unavailable: Later\.$/],
  ['more than a hundred merchants have', 200, 'x'.repeat(3_000_000), /answers more than 2097152 bytes/],
]

for (const [name, status, body, message] of oddBooks) {
  it(`${name} has no balances`, async t => {
    const server = createServer((_, response) => response.writeHead(status).end(body))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const { port } = server.address() as AddressInfo
    const client = createProvisionClient({ url: new URL(`http://127.0.0.1:${port}`) })
    t.after(client.end)
    await assert.rejects(client.readBooks(['a']), message)
  })
}

it('a request without an answer in time fails', async t => {
  const server = createServer(() => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const url = new URL(`http://127.0.0.1:${port}`)
  const client = createProvisionClient({ url, limits: { timeoutMs: 50 } })
  t.after(client.end)
  await assert.rejects(client.provision('a', request(), signal), /: timed out$/)
  const gone = createProvisionClient({ url: new URL('http://127.0.0.1:1') })
  t.after(gone.end)
  await assert.rejects(
    gone.close('a', signal),
    /^ProvisionError: payments service at http:\/\/127\.0\.0\.1:\d+: connection refused$/,
  )
})
