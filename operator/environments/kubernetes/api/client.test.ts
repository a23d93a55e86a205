import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { type ApiProxy, startApiProxy } from '../../../../test/support/api-proxy.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import {
  accessThrough,
  addressOf,
  makeOperatorAccount,
  newToken,
  type ServerAddress,
  writeServiceAccount,
} from '../testing/service-account.ts'
import { accessFromEnvironment, accessFromKubeconfig } from './access.ts'
import { createKubeClient, type KubeClient } from './client.ts'
import { createEventRecorder } from './events.ts'
import type { ApiResource, KubeObject } from './kube-object.ts'
import type { WatchEvent } from './transport.ts'

const configMaps: ApiResource = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }
const secrets: ApiResource = { group: '', version: 'v1', plural: 'secrets', namespaced: true }
const limits: ApiResource = {
  group: 'tollway.dev',
  version: 'v1alpha1',
  plural: 'ratelimitconfigs',
  namespaced: true,
}
const namespace = 'system'

const configMap = (name: string, data: Readonly<Record<string, string>> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace, name },
  data,
})

const versionOf = ({ metadata }: KubeObject) => ({
  namespace: metadata.namespace,
  name: metadata.name,
  uid: metadata.uid ?? assert.fail('it has no uid'),
  resourceVersion: metadata.resourceVersion ?? assert.fail('it has no resourceVersion'),
})

describe('# a client of a real API server, with the rights of the operator', {
  skip: missingKubeAssets(),
  timeout: 90_000,
}, () => {
  const folder = temporaryFolder('kube-client')
  let api: KubeApiServer
  let address: ServerAddress
  let token: string
  let client: KubeClient
  let proxy: ApiProxy
  let proxied: KubeClient

  before(async () => {
    api = await startKubeApiServer()
    address = await addressOf(api)
    token = await makeOperatorAccount(api, namespace)
    client = createKubeClient(writeServiceAccount(folder, address, { namespace, token }), {
      random: Math.random,
    })
    proxy = await startApiProxy({ target: address, seed: 1 })
    proxied = createKubeClient(accessThrough(proxy.url, { namespace, token }), {
      random: Math.random,
      limits: { attemptTimeoutMs: 1_000 },
    })
    // The API server applies new roles after a delay.
    await waitFor('the roles to hold', async () => {
      await client.get(configMaps, { namespace, name: 'none' })
      return true
    })
  })
  after(async () => {
    client?.close()
    proxied?.close()
    await proxy?.stop()
    await api?.stop()
  })

  it('creates and gets an object, and rejects a second create', async () => {
    const made = await client.create(configMaps, configMap('created', { a: '1' }))
    assert.deepEqual(await client.get(configMaps, versionOf(made)), made)
    assert.equal(await client.get(configMaps, { namespace, name: 'nobody' }), undefined)
    await assert.rejects(client.create(configMaps, configMap('created')), {
      name: 'KubeApiError',
      code: 409,
      reason: 'AlreadyExists',
      message:
        /^POST \/api\/v1\/namespaces\/system\/configmaps: 409 AlreadyExists: .*"created" already exists/,
    })
  })

  it('applies as one field owner, and takes fields over only by force', async () => {
    const name = 'applied'
    await api.call('POST', `/api/v1/namespaces/${namespace}/configmaps?fieldManager=somebody`, {
      ...configMap(name, { theirs: '1', contested: 'them' }),
    })
    const wanted = configMap(name, { ours: '1', contested: 'us' })
    await assert.rejects(client.apply(configMaps, wanted), { code: 409, message: /somebody.*contested/s })
    const applied = await client.apply(configMaps, wanted, { force: true })
    assert.deepEqual(applied['data'], { ours: '1', contested: 'us', theirs: '1' })
    const managers = applied.metadata['managedFields'] as { manager: string; operation: string }[]
    assert.ok(managers.some(({ manager, operation }) => manager === 'tollway' && operation === 'Apply'))
    const again = await client.apply(configMaps, wanted)
    assert.equal(
      again.metadata.resourceVersion,
      applied.metadata.resourceVersion,
      'nothing was to be changed',
    )
    const less = await client.apply(configMaps, configMap(name, { ours: '2' }))
    assert.deepEqual(less['data'], { ours: '2', theirs: '1' })
  })

  it('keeps a field that two owners share until both have dropped it', async () => {
    const wanted = configMap('shared', { shared: '1' })
    await client.apply(configMaps, wanted)
    await client.apply(configMaps, wanted, { owner: 'another' })
    const left = await client.apply(configMaps, configMap('shared'))
    assert.deepEqual(left['data'], { shared: '1' })
    const gone = await client.apply(configMaps, configMap('shared'), { owner: 'another' })
    assert.equal(gone['data'], undefined)
  })

  it('writes with a version only if the object still has it', async () => {
    const made = await client.apply(configMaps, configMap('versioned', { a: '1' }))
    const changed = await client.apply(configMaps, configMap('versioned', { a: '2' }))
    const stranger = { ...versionOf(changed), uid: '00000000-0000-0000-0000-000000000000' }
    const conflict = { name: 'KubeApiError', code: 409, reason: 'Conflict' }
    await assert.rejects(client.setFinalizers(configMaps, versionOf(made), ['tollway.dev/x']), conflict)
    await assert.rejects(client.delete(configMaps, versionOf(made)), conflict)
    await assert.rejects(client.delete(configMaps, stranger), conflict)
    assert.deepEqual(await client.get(configMaps, versionOf(made)), changed, 'nothing has changed')
  })

  it('keeps an object with a finalizer until the finalizer is removed', async () => {
    const made = await client.apply(configMaps, configMap('held'))
    const held = await client.setFinalizers(configMaps, versionOf(made), ['tollway.dev/held'])
    assert.deepEqual(held.metadata.finalizers, ['tollway.dev/held'])
    await client.delete(configMaps, { namespace, name: 'held', uid: versionOf(held).uid })
    const dying = (await client.get(configMaps, versionOf(held))) ?? assert.fail('it is gone')
    assert.notEqual(dying.metadata.deletionTimestamp, undefined)
    await client.setFinalizers(configMaps, versionOf(dying), [])
    assert.equal(await client.get(configMaps, versionOf(held)), undefined)
    await client.delete(configMaps, versionOf(dying))
  })

  it('lists in pages', async () => {
    const names = Array.from({ length: 5 }, (_, index) => `page-${index}`)
    for (const name of names) {
      const labelled = { ...configMap(name), metadata: { namespace, name, labels: { app: 'pages' } } }
      await client.apply(configMaps, labelled)
    }
    const seen: string[] = []
    const sizes: number[] = []
    let more: string | undefined
    do {
      const page = await client.list(configMaps, {
        namespace,
        labelSelector: 'app=pages',
        limit: 2,
        continue: more,
      })
      seen.push(...page.items.map(({ metadata }) => metadata.name))
      sizes.push(page.items.length)
      more = page.continue
    } while (more !== undefined)
    assert.deepEqual(seen, names)
    assert.deepEqual(sizes, [2, 2, 1])
  })

  it('watches until the requested time ends, also an object of one megabyte', async () => {
    const { resourceVersion } = await client.list(configMaps, { namespace, limit: 1 })
    const large = 'x'.repeat(1_000_000)
    const made = await client.apply(configMaps, configMap('watched', { large }))
    await client.delete(configMaps, versionOf(made))
    const { signal } = new AbortController()
    const events = client.watch(configMaps, { namespace, resourceVersion, timeoutSeconds: 3, signal })
    const seen: WatchEvent[] = []
    for await (const event of events) seen.push(event)
    const changes = seen.filter(({ type }) => type !== 'BOOKMARK')
    assert.deepEqual(
      changes.map(({ type, object }) => `${type} ${object.metadata.name}`),
      ['ADDED watched', 'DELETED watched'],
    )
    assert.deepEqual(changes[0]?.object['data'], { large })
  })

  it('writes only the status of a custom resource', async () => {
    await serveKinds(api, [rateLimitConfigKind])
    const path = `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`
    const envelope = { apiVersion: 'tollway.dev/v1alpha1', kind: 'RateLimitConfig' }
    const metadata = { namespace, name: 'checkout' }
    const spec = { domain: 'checkout', descriptors: [{ key: 'user' }] }
    await waitFor('a resource to be taken', async () => {
      return (await api.call('POST', path, { ...envelope, metadata, spec })).status === 201
    })
    const status = { observedGeneration: 1 }
    const written = await client.applyStatus(limits, { ...envelope, metadata, status })
    assert.equal((written['status'] as typeof status).observedGeneration, 1)
    assert.equal((written['spec'] as typeof spec).domain, 'checkout')
    await assert.rejects(client.apply(limits, { ...envelope, metadata, spec }), { code: 403 })
    await assert.rejects(
      client.applyStatus(limits, { ...envelope, metadata: { ...metadata, name: 'new' } }),
      {
        code: 404,
      },
    )
  })

  it('has no more rights than its list of permissions says', async () => {
    const forbidden = { name: 'KubeApiError', code: 403, reason: 'Forbidden' }
    assert.equal(await client.get(secrets, { namespace, name: 'one' }), undefined)
    assert.equal(await client.get(secrets, { namespace: 'default', name: 'one' }), undefined)
    await assert.rejects(client.list(secrets, { namespace: 'default', limit: 1 }), forbidden)
    const made = { metadata: { namespace: 'default', name: 'x' } }
    await assert.rejects(client.apply(secrets, made), forbidden)
    await assert.rejects(
      client.apply(configMaps, { metadata: { namespace: 'default', name: 'x' } }),
      forbidden,
    )
  })

  it('uses a token that is replaced in its file from the next call on', async () => {
    const account = { namespace, token: 'no.real.token' }
    const rotated = createKubeClient(writeServiceAccount(join(folder, 'rotated'), address, account), {
      random: Math.random,
    })
    const ask = () => rotated.list(configMaps, { namespace, limit: 1 })
    await assert.rejects(ask(), error => {
      assert.match(`${error}`, /401 Unauthorized/)
      assert.doesNotMatch(`${error}`, /no\.real\.token/)
      return true
    })
    writeFileSync(join(folder, 'rotated', 'token'), `${await newToken(api, namespace)}\n`)
    await ask()
    rotated.close()
  })

  it('takes the access of a kubeconfig, and rejects a broken one without showing its token', async () => {
    const path = join(folder, 'kubeconfig')
    const config = (user: string) => `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: ${namespace}}}]
clusters:
  - name: test
    cluster:
      server: https://${address.host}:${address.port}
      certificate-authority-data: ${Buffer.from(address.ca).toString('base64')}
users: [{name: test, user: ${user}}]
`
    writeFileSync(path, config(`{token: ${token}}`))
    const access = await accessFromEnvironment({ KUBECONFIG: path })
    assert.equal(access.namespace, namespace)
    const byFile = createKubeClient(access, { random: Math.random })
    await byFile.list(configMaps, { namespace, limit: 1 })
    byFile.close()
    await assert.rejects(
      accessFromKubeconfig(path, 'other'),
      /for the context "other"; it has the contexts test/,
    )
    writeFileSync(path, config(`{token: ${token}: }}`))
    await assert.rejects(accessFromKubeconfig(path), error => {
      assert.match(`${error}`, /kubeconfig .* cannot be read/)
      assert.doesNotMatch(`${error}`, new RegExp(token))
      return true
    })
  })

  it('records each event once, and cuts a long one', async () => {
    const lost: string[] = []
    const ids = ['1a', '1b'].values()
    const recorder = createEventRecorder({
      client,
      reportingInstance: 'tollway-0',
      newId: () => ids.next().value ?? 'more',
      onLost: (count, cause) => lost.push(`${count} ${cause}`),
    })
    const regarding = await client.apply(configMaps, configMap('told'))
    const event = {
      regarding,
      type: 'Warning',
      reason: 'Refused',
      action: 'Translate',
      note: 'é'.repeat(900),
    } as const
    recorder.record(event)
    recorder.record(event)
    await recorder.settled()
    assert.deepEqual(lost, [])
    const { body } = await api.call('GET', `/apis/events.k8s.io/v1/namespaces/${namespace}/events`)
    const { items } = body as { items: { note: string; regarding: { name: string } }[] }
    assert.equal(items.length, 1)
    assert.equal(items[0]?.regarding.name, 'told')
    assert.match(items[0]?.note ?? '', /^é{500,}.?…$/)
  })

  describe('# a client of an API server behind a faulty proxy', () => {
    it('retries a write only after the time that the server names', async () => {
      proxy.setFaults({ answers: [{ status: 429, share: 1, retryAfterSeconds: 1 }] })
      const before = proxy.calls().length
      const writing = proxied.apply(configMaps, configMap('patient'))
      await waitFor('the first try', () => proxy.calls().length === before + 1)
      proxy.setFaults({})
      await writing
      const [first, second, ...more] = proxy.calls().slice(before)
      assert.deepEqual([first?.status, second?.status, more.length], [429, 201, 0])
      assert.ok((second?.atMs ?? 0) - (first?.atMs ?? 0) >= 1_000)
    })

    it('returns a delay beyond the limit of the call to the caller', async () => {
      proxy.setFaults({ answers: [{ status: 503, share: 1, retryAfterSeconds: 60 }] })
      await assert.rejects(proxied.apply(configMaps, configMap('later')), { code: 503, retryAfterMs: 60_000 })
      proxy.setFaults({ answers: [{ status: 409, share: 1 }] })
      await assert.rejects(proxied.apply(configMaps, configMap('later')), { code: 409 })
    })

    it('sends ten calls a second in all while calls fail', async () => {
      proxy.setFaults({ answers: [{ status: 500, share: 1 }] })
      const ask = () => proxied.get(configMaps, { namespace, name: 'x' }).catch(error => error.code)
      const startMs = performance.now()
      await ask()
      assert.deepEqual(await Promise.all(Array.from({ length: 6 }, ask)), Array(6).fill(500))
      assert.ok(performance.now() - startMs > 590)
      proxy.setFaults({})
      await ask()
    })

    it('fails after the time limit without an answer, and uses another connection afterwards', async () => {
      proxy.setFaults({ silent: true })
      await assert.rejects(proxied.get(configMaps, { namespace, name: 'x' }), { code: 0, reason: 'Timeout' })
      proxy.setFaults({})
      await proxied.get(configMaps, { namespace, name: 'x' })
    })
  })
})
