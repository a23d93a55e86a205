import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { TlsFiles } from '@tollway/chassis/net/tls.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { type RateLimitDomain, rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { Certificates } from '../../operator/certificates/certificates.ts'
import { type CertificateIdentity, issueAuthority, issueLeaf } from '../../operator/certificates/issue.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { storeInMemory } from '../../operator/testing/store-in-memory.ts'
import { discoveryPath } from '../../operator/xds/discovery.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { createProvisionServer } from '../../services/payments/http/servers/provision-server.ts'
import type { Payments } from '../../services/payments/operations/operation.ts'
import { startFeed as startServiceFeed } from '../../services/ratelimit/config/testing/start-feed.ts'
import { openXdsTls } from '../../services/xds-client/xds-tls.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

const serverName = 'tollway-operator.system.svc'
const podName = 'tollway-ratelimit.system.svc'
const secretNames = { authority: 'tollway-ca', server: 'tollway-feed-server', client: 'tollway-feed-client' }
const rotations = process.env['SOAK'] === '1' ? 200 : 2
/** Everything is renewed every few seconds; what is written reaches pods within the spread. */
const timing = {
  ...{ authorityLifeMs: 7_000, leafLifeMs: 3_000, spreadMs: 900 },
  ...{ checkEveryMs: 200, firstCheckEveryMs: 20 },
}
const kubeletRefreshMs = 150

function domain(k: number): RateLimitDomain {
  const rateLimit = { unit: 'day', requestsPerUnit: k, unlimited: false, name: '', replaces: [] }
  const flags = { shadowMode: false, detailedMetric: false, quotaMode: false, valueToMetric: false }
  const rule = { key: 'k', value: '', rateLimit, ...flags, shareThreshold: false, descriptors: [] }
  return { name: 'shop/a', domain: 'a', descriptors: [rule] }
}

/** Starts the operator's feed behind a real server, with certificates that an operator renews. */
async function startOperator(t: TestContext, times = {}) {
  const store = storeInMemory()
  const certificates = new Certificates({
    ...{ store, secretNames, clock: systemClock, log: silentLog, random: Math.random },
    dnsNames: { server: [serverName], client: [podName] },
    mayWrite: () => true,
    timing: { ...timing, ...times },
  })
  let streams = 0
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({ methods: feed.methods, onDefect: (_, error) => assert.fail(`${error}`) })
  t.after(async () => {
    feed.close()
    await Promise.all([server.drain(0), certificates.stop()])
  })
  certificates.start()
  await certificates.ready()
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls: certificates.serverTls })
  assert.ok('port' in bound)
  await waitFor('the leaf of the pods', () => store.data(secretNames.client)['tls.crt'])
  const publish = (domains: readonly RateLimitDomain[]) =>
    feed.publish(createSnapshot(rateLimitTypeUrl, domains.map(encodeRateLimitDomain)))
  publish([domain(1)])
  return { address: `127.0.0.1:${bound.port}`, certificates, store, publish, streams: () => streams }
}

type Files = Readonly<Record<string, string>>

/** A volume as the kubelet mounts a Secret: links to a folder that is swapped in one step. */
function createMount() {
  const folder = temporaryFolder('feed-mtls')
  const path = (name: string) => join(folder, name)
  let swaps = 0
  return {
    options: { xdsCertFile: path('tls.crt'), xdsKeyFile: path('tls.key'), xdsCaFile: path('ca.crt') },
    swap(files: Files): void {
      swaps += 1
      mkdirSync(path(`..${swaps}`))
      for (const [name, content] of Object.entries(files))
        writeFileSync(join(path(`..${swaps}`), name), content)
      symlinkSync(`..${swaps}`, path('..new'))
      renameSync(path('..new'), path('..data'))
      if (swaps === 1) for (const name of Object.keys(files)) symlinkSync(join('..data', name), path(name))
    },
  }
}

const fixed = { xdsServerSan: serverName, xdsServer: { host: '127.0.0.1', port: 0 } }

const nowMs = Date.now()
const soonMs = nowMs + 600_000
const strangers = issueAuthority('tollway feed', { nowMs, expiresAtMs: soonMs })
const ofPods = { dnsNames: [podName], usage: ['client'], nowMs, expiresAtMs: soonMs } as const

const writeFiles = ({ cert, key }: CertificateIdentity, ca = '') => ({
  'tls.crt': cert,
  'tls.key': key,
  'ca.crt': ca,
})

/** The files of a client, derived from valid ones. */
const wrong: Readonly<Record<string, (right: Files, authority: CertificateIdentity) => Files>> = {
  'a certificate of another authority': right => writeFiles(issueLeaf(strangers, ofPods), right['ca.crt']),
  'another authority of the operator': right => ({ ...right, 'ca.crt': strangers.cert }),
  'a certificate that has expired': (right, authority) => {
    const expired = issueLeaf(authority, { ...ofPods, nowMs: nowMs - 120_000, expiresAtMs: nowMs - 60_000 })
    return writeFiles(expired, right['ca.crt'])
  },
  'a certificate that is only for servers': (right, authority) =>
    writeFiles(issueLeaf(authority, { ...ofPods, usage: ['server'] }), right['ca.crt']),
}

test('the feed rejects clients without a certificate of the fleet, and serves those with one', async t => {
  const { address, store, streams } = await startOperator(t, {
    leafLifeMs: 600_000,
    authorityLifeMs: 2_000_000,
  })
  const right = store.data(secretNames.client)
  const { 'ca.crt': cert = '', 'ca.key': key = '' } = store.data(secretNames.authority)
  const attempt = (files: Files, options = {}) => {
    const mount = createMount()
    mount.swap(files)
    const tls = openXdsTls({ ...fixed, ...mount.options, ...options }, () => {})
    return startServiceFeed(t, address, { tls })
  }
  for (const [what, make] of Object.entries(wrong)) {
    const { warnings } = attempt(make(right, { cert, key }))
    await waitFor(`a word about ${what}`, () =>
      warnings.some(line => line.startsWith('connect to management server failed')),
    )
  }
  const bare = attempt(right, { xdsCertFile: '', xdsKeyFile: '' })
  await waitFor('a word about no certificate', () => bare.warnings.length > 0)
  const misled = attempt(right, { xdsServerSan: 'another.system.svc' })
  await waitFor('a word about another name', () => misled.warnings.join().includes('another.system.svc'))
  assert.equal(streams(), 0)
  const { inForce } = attempt(right)
  await waitFor('the configuration', () => inForce() === 'a:1')
})

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

const codec = {
  encode: (request: Request) => toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, request)),
  decode: (bytes: Uint8Array): DiscoveryResponse => fromBinary(DiscoveryResponseSchema, bytes),
}

/** Opens a new connection; resolves with whether a configuration arrived, and rejects with the reason. */
async function fetchOnce(address: string, tls: ClientTls): Promise<boolean> {
  const client = createGrpcClient(address, { tls })
  try {
    const call = client.bidi(discoveryPath, codec)
    call.write({ typeUrl: rateLimitTypeUrl, node: { id: 'probe' } })
    for await (const { resources } of call.messages) return resources.length > 0
    return false
  } finally {
    client.close()
  }
}

const readReason = (error: unknown) => (error as Error).message

test(`${rotations} rotations of the authority under load close no stream and reject no pod`, async t => {
  const { address, store, publish } = await startOperator(t)
  const mount = createMount()
  const running = new AbortController()
  const again = async (everyMs: number, act: () => unknown) => {
    while (!running.signal.aborted) {
      await act()
      await pause(everyMs)
    }
  }
  let mounted = ''
  const refresh = () => {
    const files = store.data(secretNames.client)
    if (JSON.stringify(files) === mounted) return
    mounted = JSON.stringify(files)
    mount.swap(files)
  }
  refresh()
  const options = { ...fixed, ...mount.options }
  const { inForce, warnings } = startServiceFeed(t, address, { tls: openXdsTls(options, assert.fail) })
  await waitFor('the first configuration', () => inForce() === 'a:1')
  const probe = openXdsTls(options, assert.fail)
  t.after(() => probe.close())
  const failures: string[] = []
  const leaked: string[] = []
  let [published, fetched, turnedAway] = [1, 0, 0]
  const intruder: ClientTls = {
    serverName,
    credentials: () => ({ ca: probe.credentials().ca, identity: issueLeaf(strangers, ofPods) }),
    onChange: () => () => {},
  }
  const loops = [
    again(kubeletRefreshMs, refresh),
    again(5, () => publish([domain(++published)])),
    again(10, () =>
      fetchOnce(address, probe).then(
        () => (fetched += 1),
        error => failures.push(readReason(error)),
      ),
    ),
    again(50, () =>
      fetchOnce(address, intruder).then(
        () => leaked.push('a configuration'),
        () => (turnedAway += 1),
      ),
    ),
  ]
  const authorities = new Set<string>()
  await waitFor(
    'the rotations',
    () => authorities.add(store.data(secretNames.authority)['ca.crt'] ?? '').size > rotations,
    rotations * 20_000,
  )
  running.abort()
  await Promise.all(loops)
  await waitFor('the last configuration', () => inForce() === `a:${published}`)
  assert.deepEqual(failures, [])
  assert.deepEqual(warnings, [], 'the stream of the service was never interrupted')
  assert.deepEqual(leaked, [])
  assert.ok(fetched > 10 * rotations && turnedAway > rotations, `${fetched} and ${turnedAway}`)
})

test('merchants are provisioned over mutual TLS while the authority rotates', async t => {
  const { certificates, store } = await startOperator(t)
  const mount = createMount()
  mount.swap(store.data(secretNames.client))
  const { xdsCertFile: certFile, xdsKeyFile: keyFile, xdsCaFile: caFile } = mount.options
  const tls = new TlsFiles({
    cert: { setting: 'PROVISION_TLS_CERT', path: certFile },
    key: { setting: 'PROVISION_TLS_KEY', path: keyFile },
    ca: { setting: 'PROVISION_TLS_CLIENT_CA', path: caFile },
    onReloadFailed: assert.fail,
  })
  t.after(() => tls.close())
  const server = createProvisionServer({
    ...{ payments: {} as Payments, log: silentLog, clock: systemClock, randomBytes, onAnswer() {} },
    ...{ tls, token: null, demandsCertificate: true, clientName: serverName },
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(() => server.close(0))
  const operator = certificates.clientTls(podName)
  const authorities = new Set<string>()
  const rotated = () => authorities.add(store.data(secretNames.authority)['ca.crt'] ?? '').size > 1
  const deadlineMs = performance.now() + 20_000
  let calls = 0
  for (let mounted = ''; !rotated(); calls++) {
    assert.ok(performance.now() < deadlineMs, `${authorities.size} authorities so far`)
    const files = store.data(secretNames.client)
    if (JSON.stringify(files) !== mounted) mount.swap(files)
    mounted = JSON.stringify(files)
    assert.equal(await statusOverTls(port, operator), 404)
    await pause(kubeletRefreshMs)
  }
  assert.ok(calls > 10, `${calls} calls`)
})

/** Resolves with the status of an unknown path, over a new connection. */
async function statusOverTls(
  port: number,
  { credentials, serverName }: ClientTls,
): Promise<number | undefined> {
  const { ca, identity } = credentials()
  const options = {
    host: '127.0.0.1',
    port,
    path: '/',
    agent: false,
    servername: serverName,
    ca,
    ...identity,
  }
  const [response] = (await once(request(options).end(), 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}
