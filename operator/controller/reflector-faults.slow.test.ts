import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { type ApiFaults, type ApiProxy, seededRandom, startApiProxy } from '../../test/support/api-proxy.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../test/support/kube-api-server.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import {
  createKubeClient,
  createReflectorSource,
  type KubeClient,
} from '../environments/kubernetes/api/client.ts'
import type { ApiResource, KubeObject } from '../environments/kubernetes/api/kube-object.ts'
import {
  accessThrough,
  addressOf,
  makeOperatorAccount,
} from '../environments/kubernetes/testing/service-account.ts'
import { createReflector, type Reflector, type ReflectorTiming } from './reflector.ts'

/** The total number of faults to inject; 10,000 in the long form. */
const wantedFaults = Number(process.env['FAULTS'] ?? 40)
const seed = Number(process.env['SEED'] ?? 20_260_401)
const configMaps: ApiResource = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }
const namespaces = ['shop', 'web']
/** The times of production, divided by twenty. */
const timing: Partial<ReflectorTiming> = {
  shortestWatchSeconds: 1,
  longestWatchSeconds: 2,
  watchGraceMs: 250,
  watchSpacingMs: 50,
  retryInitialMs: 12,
  retryMaxMs: 400,
  relistSpreadMs: 150,
}

const share = 0.3
const kinds: readonly ApiFaults[] = [
  { cutEvents: share },
  { garbageEvents: share },
  { goneEvents: share },
  { endWatchesAfterMs: 50 },
  { answers: [{ status: 500, share }], delayMs: 20, endWatchesAfterMs: 50 },
  { answers: [{ status: 410, share, of: 'watches' }], endWatchesAfterMs: 50 },
  { answers: [{ status: 401, share }], cutEvents: share },
  { answers: [{ status: 503, share }], goneEvents: share, endWatchesAfterMs: 100 },
]

describe('reflectors of a real API server behind a faulty proxy', { skip: missingKubeAssets() }, () => {
  let api: KubeApiServer
  let proxy: ApiProxy
  let client: KubeClient
  const random = seededRandom(seed)
  const reflectors: Reflector<KubeObject>[] = []
  const errors: string[] = []

  before(async () => {
    process.stderr.write(`SEED=${seed}\n`)
    api = await startKubeApiServer()
    let token = ''
    for (const namespace of namespaces) token = await makeOperatorAccount(api, namespace)
    await bindBoth(api)
    proxy = await startApiProxy({ target: await addressOf(api), seed })
    client = createKubeClient(accessThrough(proxy.url, { namespace: 'web', token }), {
      random,
      limits: { attemptTimeoutMs: 500, outageSpacingMs: 5 },
    })
  })
  afterEach(async () => {
    proxy.setFaults({})
    await Promise.all(reflectors.splice(0).map(reflector => reflector.stop()))
  })
  after(async () => {
    client?.close()
    await proxy?.stop()
    await api?.stop()
  })

  function startReflector(changed: Partial<ReflectorTiming> = {}): Reflector<KubeObject> {
    const reflector = createReflector<KubeObject>({
      source: createReflectorSource(client, configMaps),
      namespaces,
      onError: error => errors.push((error as Error).message),
      random,
      timing: { ...timing, ...changed },
    })
    reflectors.push(reflector)
    return reflector
  }

  async function change(): Promise<void> {
    const namespace = namespaces[Math.floor(random() * namespaces.length)]
    const name = `object-${Math.floor(random() * 20)}`
    const path = `/api/v1/namespaces/${namespace}/configmaps`
    const data = { value: `${random()}`, filling: 'x'.repeat(random() < 0.05 ? 1_000_000 : 100) }
    if (random() < 0.3) {
      await api.call('DELETE', `${path}/${name}`)
      return
    }
    const made = await api.call('POST', path, { metadata: { name }, data })
    if (made.status === 409) await api.call('PUT', `${path}/${name}`, { metadata: { name }, data })
  }

  /** Returns the objects as the API server lists them without the proxy. */
  async function truth(): Promise<string[]> {
    const lists = namespaces.map(async namespace => {
      const { body } = await api.call('GET', `/api/v1/namespaces/${namespace}/configmaps`)
      return (body as { items: KubeObject[] }).items
    })
    return describeAll((await Promise.all(lists)).flat())
  }

  const describeAll = (objects: readonly KubeObject[]) =>
    objects.map(({ metadata: { namespace, name, resourceVersion } }) => {
      return `${namespace}/${name}@${resourceVersion}`
    })

  async function converges(reflector: Reflector<KubeObject>): Promise<void> {
    const expected = (await truth()).sort().join('\n')
    try {
      await waitFor(
        'the content of the server',
        () => describeAll(reflector.list()).sort().join('\n') === expected,
        5_000,
      )
    } catch {
      assert.equal(describeAll(reflector.list()).sort().join('\n'), expected, errors.slice(-5).join('\n'))
    }
  }

  it(`has the content of the server after each of ${wantedFaults} faults and more`, async () => {
    const reflector = startReflector()
    assert.equal(await reflector.synced(), true)
    for (let round = 0; proxy.struck() < wantedFaults || round < kinds.length; round++) {
      proxy.setFaults(kinds[round % kinds.length] ?? {})
      const enough = proxy.struck() + Math.min(20, Math.ceil(wantedFaults / kinds.length / 2))
      const strike = async () => {
        await change()
        return proxy.struck() >= enough
      }
      await waitFor(`${JSON.stringify(kinds[round % kinds.length])} to strike`, strike)
      proxy.setFaults({})
      await converges(reflector)
    }
    assert.ok(errors.length > 0)
  })

  it('detects a silent connection, and has the changes of that time afterwards', async () => {
    const reflector = startReflector()
    await reflector.synced()
    errors.length = 0
    proxy.setFaults({ silent: true })
    await change()
    await waitFor('each namespace to notice', () => errors.length >= 2)
    assert.match(errors.join('\n'), /did not end the watch|no whole answer within/)
    for (let count = 0; count < 10; count++) await change()
    proxy.setFaults({})
    await converges(reflector)
  })

  it('recovers lost events by its next list', async () => {
    const reflector = startReflector({ relistMs: 1_000 })
    await reflector.synced()
    proxy.setFaults({ lostEvents: 1 })
    for (let count = 0; count < 10; count++) await change()
    proxy.setFaults({})
    await converges(reflector)
  })

  it('opens watches at its spacing if the server ends each one immediately', async () => {
    const reflector = startReflector({ watchSpacingMs: 200 })
    await reflector.synced()
    proxy.setFaults({ endWatchesAfterMs: 0 })
    const watches = () => proxy.calls().filter(({ path }) => path.includes('watch=true')).length
    const before = watches()
    const startMs = performance.now()
    await waitFor('some watches', () => watches() >= before + 8)
    const perSecond = 8 / ((performance.now() - startMs) / 1000)
    assert.ok(perSecond <= 2 * 5 * 1.5, `${perSecond} watches a second, of two namespaces`)
    proxy.setFaults({})
    await change()
    await converges(reflector)
  })

  it('lists thousands of objects in pages', async () => {
    const path = '/api/v1/namespaces/shop/configmaps'
    const names = Array.from({ length: 1_100 }, (_, index) => `many-${index}`)
    for (let from = 0; from < names.length; from += 20) {
      await Promise.all(
        names.slice(from, from + 20).map(name => api.call('POST', path, { metadata: { name } })),
      )
    }
    const before = proxy.calls().length
    const reflector = startReflector()
    await converges(reflector)
    const pages = proxy.calls().slice(before)
    assert.ok(pages.filter(call => call.path.includes('continue=')).length >= 2)
  })
})

/** Lets the account of one namespace also read the other one. */
async function bindBoth(api: KubeApiServer): Promise<void> {
  const path = '/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings'
  const answer = await api.call('POST', path, {
    metadata: { name: 'also-web' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'shop-workloads' },
    subjects: [{ kind: 'ServiceAccount', name: 'tollway', namespace: 'web' }],
  })
  assert.equal(answer.status, 201)
}
