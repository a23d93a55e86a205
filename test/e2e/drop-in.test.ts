import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Certificate, makeCertificate } from '../support/certificate.ts'
import { type GoFeedServer, missingGoFeedServer, startGoFeedServer } from '../support/go-feed-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Cleanup } from '../support/tollway.ts'
import { apply, eventually, kubectl, type Pod, pods, read, restricted } from './cluster.ts'
import { callsTo, decides } from './decides.ts'
import { dropInEnvoy, dropInPorts, manifests } from './drop-in-envoy.ts'
import { withTestImages } from './test-images.ts'

const gateway = 'envoy-gateway-system'
/** Each namespace with the manifests that are applied in it. */
const applied = [
  { namespace: 'reference', files: ['redis.yaml', 'reference/ratelimit.yaml'] },
  { namespace: 'default', files: ['redis.yaml', 'istio/rate-limit-service.yaml'] },
  { namespace: 'redis', files: ['redis.yaml'] },
  { namespace: gateway, files: ['envoy-gateway/ratelimit.yaml'] },
] as const

const skip = process.env['KUBECONFIG'] === undefined ? 'KUBECONFIG names no cluster' : missingGoFeedServer()

describe('manifests for envoyproxy/ratelimit with the image of Tollway', { skip, timeout: 300_000 }, () => {
  const ends: (() => unknown)[] = []
  const cleanup: Cleanup = { after: end => void ends.push(end) }
  let feed: GoFeedServer
  let envoyIp = ''

  before(async () => {
    const names = 'DNS:envoy-gateway,DNS:envoy-ratelimit,DNS:localhost'
    const identity = await makeCertificate(temporaryFolder('drop-in'), 'envoy-gateway', names)
    for (const name of ['reference', 'redis', gateway]) {
      const labels = name === gateway ? restricted : {}
      await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
    }
    await apply(secretOf(identity))
    for (const { namespace, files } of applied) {
      for (const file of files) await applyManifest(namespace, file)
    }
    await startEnvoy(identity)
    await available('redis', 'redis')
    feed = await startFeedServer(cleanup, identity)
    const [redis] = await pods('redis', 'app=redis')
    const port = Number(feed.address.split(':').at(-1))
    await apply(feedService(await addressTowards(redis?.status.podIP ?? ''), port))
    await kubectl('-n', 'reference', 'wait', '--for=condition=Ready', 'pod/envoy', '--timeout=90s')
    envoyIp = (await read<Pod>('reference', 'pods/envoy'))?.status.podIP ?? ''
  })
  after(async () => {
    for (const { namespace, files } of applied) {
      const paths = files.flatMap(file => ['-f', join(manifests, file)])
      await kubectl('-n', namespace, 'delete', '--ignore-not-found', '--wait=false', ...paths)
    }
    await kubectl('delete', 'namespace', 'reference', 'redis', gateway, '--wait=false')
    for (const end of ends) await end()
  })

  const callsOf = (kind: keyof typeof dropInPorts, path: string, headers: Readonly<Record<string, string>>) =>
    callsTo(`http://${envoyIp}:${dropInPorts[kind]}${path}`, headers)

  it("docker-compose-example.yml of the reference, with its Envoy's timeout of 20 ms", async () => {
    await available('reference', 'ratelimit')
    await decides([200, 200, 429], user => callsOf('reference', '/header', { foo: user }))
    await decides([429], user => callsOf('reference', '/twoheader', { foo: user, bar: 'banned' }))
    await decides([200, 200], user => callsOf('reference', '/twoheader', { foo: user, baz: 'shady' }))
  })

  it("Istio's sample, with the patches of its EnvoyFilters", async () => {
    await available('default', 'ratelimit')
    await eventually('Envoy to find the service', async () => (await callsOf('istio', '/', {})(1))[0] === 200)
    assert.deepEqual(await callsOf('istio', '/productpage', {})(3), [200, 429, 429])
    await decides([200, 200, 200], user => callsOf('istio', `/${user}`, {}))
  })

  it('an edit of the mounted ConfigMap is in force', async () => {
    const manifest = readFileSync(join(manifests, 'istio/rate-limit-service.yaml'), 'utf8')
    const edited = manifest.replace('requests_per_unit: 2', 'requests_per_unit: 1')
    await applyText('default', edited)
    // The kubelet mounts the new version at once if the pod changes, otherwise within two minutes.
    await kubectl('-n', 'default', 'annotate', 'pod', '-l', 'app=ratelimit', 'edited=yes')
    await eventually('the new limit', async () => (await limitOf('api')) === 1)
  })

  it("Envoy Gateway's Deployment follows an xDS feed with mutual TLS", async () => {
    // The Deployment is ready without a configuration: Envoy Gateway has none before the first policy.
    await available(gateway, 'envoy-ratelimit')
    feed.publishConfigs('1', [policy(2)])
    await decides([200, 200, 429], user => callsOf('envoyGateway', '/', { 'x-user-id': user }))
    feed.publishConfigs('2', [policy(1)])
    await decides([200, 429], user => callsOf('envoyGateway', '/', { 'x-user-id': user }))
    // A pod decides by a version before it acknowledges it.
    await eventually('the acknowledgement', async () => {
      const acknowledged = feed.events('request').filter(({ text = '' }) => text === '')
      return acknowledged.at(-1)?.version === '2'
    })
  })

  it("the metrics have the names of Envoy Gateway's mapping", async () => {
    const [pod] = await pods(gateway, 'app.kubernetes.io/name=envoy-ratelimit')
    const text = await (await fetch(`http://${pod?.status.podIP}:19001/metrics`)).text()
    assert.match(text, /^ratelimit_service_rate_limit_over_limit\{.*key2="rule-0-match-0".*\} [1-9]/m)
    assert.match(text, /^ratelimit_service_response_time_seconds_bucket\{grpc_method="ShouldRateLimit"/m)
  })
})

/** Returns the limit of Istio's sample for the path. */
async function limitOf(path: string): Promise<number | undefined> {
  const [pod] = await pods('default', 'app=ratelimit')
  const entries = [{ key: 'PATH', value: path }]
  const body = JSON.stringify({ domain: 'ratelimit', descriptors: [{ entries }] })
  const response = await fetch(`http://${pod?.status.podIP}:8080/json`, { method: 'POST', body })
  const { statuses = [] } = (await response.json()) as Answer
  return statuses[0]?.currentLimit?.requestsPerUnit
}

interface Answer {
  readonly statuses?: readonly { readonly currentLimit?: { readonly requestsPerUnit: number } }[]
}

const available = (namespace: string, deployment: string) =>
  kubectl('-n', namespace, 'rollout', 'status', `deploy/${deployment}`, '--timeout=120s')

const applyManifest = (namespace: string, file: string) =>
  applyText(namespace, readFileSync(join(manifests, file), 'utf8'))

/** Applies a manifest in which nothing but the names of images is replaced. */
async function applyText(namespace: string, manifest: string): Promise<void> {
  const file = join(temporaryFolder('manifest'), 'manifest.yaml')
  writeFileSync(file, withTestImages(manifest))
  await kubectl('-n', namespace, 'apply', '-f', file)
}

async function startEnvoy(identity: Certificate): Promise<void> {
  const metadata = { name: 'envoy', namespace: 'reference' }
  const data = { 'envoy.yaml': dropInEnvoy(identity) }
  await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data })
  const pod = readFileSync(join(import.meta.dirname, 'envoy.yaml'), 'utf8')
  await apply(pod.replace('namespace: shop', 'namespace: reference'))
}

/** What `envoy-gateway certgen` creates for the service, with one certificate for all sides. */
function secretOf({ cert, key }: Certificate): object {
  const stringData = { 'ca.crt': cert, 'tls.crt': cert, 'tls.key': key }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'envoy-rate-limit', namespace: gateway },
    stringData,
  }
}

function startFeedServer(t: Cleanup, { cert, key }: Certificate): Promise<GoFeedServer> {
  const file = join(temporaryFolder('feed'), 'identity.pem')
  writeFileSync(file, `${cert}${key}`)
  return startGoFeedServer(t, ['-address', '0.0.0.0:0', '-tls', file])
}

/** The Service envoy-gateway, behind which the feed of this test runs outside the cluster. */
function feedService(address: string, port: number): object {
  const metadata = { name: 'envoy-gateway', namespace: gateway }
  const labels = { 'kubernetes.io/service-name': 'envoy-gateway' }
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { ports: [{ port: 18_001, targetPort: port }] },
  }
  const endpoints = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels },
    addressType: 'IPv4',
    endpoints: [{ addresses: [address] }],
    ports: [{ port }],
  }
  return { apiVersion: 'v1', kind: 'List', items: [service, endpoints] }
}

/** Returns the address of this machine that the pod can reach. */
async function addressTowards(podIp: string): Promise<string> {
  const socket = createSocket('udp4')
  socket.connect(9, podIp)
  await once(socket, 'connect')
  const { address } = socket.address()
  socket.close()
  return address
}

/** What Envoy Gateway sends for a BackendTrafficPolicy with one global limit by a header. */
function policy(requestsPerUnit: number): object {
  const route = 'httproute/default/backend/rule/0/match/0/*'
  const rate_limit = { requests_per_unit: requestsPerUnit, unit: 'HOUR' }
  const descriptors = [{ key: route, value: route, descriptors: [{ key: 'rule-0-match-0', rate_limit }] }]
  return { name: 'default/eg/http', domain: 'default/eg/http', descriptors }
}
