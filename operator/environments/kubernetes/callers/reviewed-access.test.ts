import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { apiPath, openApiDocument } from '../../../api/openapi-document.ts'
import { serveApi } from '../../../testing/serve-api.ts'
import { createKubeClient, type KubeClient } from '../api/client.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from '../testing/service-account.ts'
import { createReviewCache, reviewedAccess } from './reviewed-access.ts'

const entries = [{ key: 'user', value: 'alice' }]
const alice = '/counters?domain=checkout&descriptor=user=alice'
/** The parts of a call in the OpenAPI document that say what the caller sends. */
interface ApiOperation {
  readonly parameters?: unknown
  readonly requestBody?: unknown
}

const rbac = '/apis/rbac.authorization.k8s.io/v1'
const hour = 3600
const now = () => Math.floor(Date.now() / 1000)

describe('callers of the API in a cluster', { skip: missingKubeAssets() }, () => {
  let kube: KubeApiServer
  let client: KubeClient
  let tokens: Readonly<Record<'viewer' | 'editor' | 'lister' | 'stranger' | 'expired', string>>

  before(async () => {
    kube = await startKubeApiServer()
    const token = await makeOperatorAccount(kube, 'tollway')
    const account = { namespace: 'tollway', token }
    const folder = temporaryFolder('operator-account')
    const access = writeServiceAccount(folder, await addressOf(kube), account)
    client = createKubeClient(access, { random: Math.random })
    await make('/api/v1/namespaces', { metadata: { name: 'shop' } })
    const counters = { apiGroups: ['tollway.dev'], resources: ['ratelimitconfigs/counters'] }
    const list = { apiGroups: ['tollway.dev'], resources: ['ratelimitconfigs'], verbs: ['list'] }
    tokens = {
      viewer: await makeUser('viewer', [{ ...counters, verbs: ['get'] }, list]),
      editor: await makeUser('editor', [{ ...counters, verbs: ['get', 'update'] }]),
      lister: await makeUser('lister', [list], 'ClusterRole'),
      stranger: await makeUser('stranger', []),
      expired: await makeUser('expired', [{ ...counters, verbs: ['get'] }], 'Role', now() - hour),
    }
  })
  after(async () => {
    client?.close()
    await kube?.stop()
  })

  async function make(path: string, object: unknown): Promise<{ metadata: { uid: string } }> {
    const { status, body } = await kube.call('POST', path, object)
    assert.equal(status, 201, JSON.stringify(body))
    return body as { metadata: { uid: string } }
  }

  /** Creates a service account with these rules in the namespace `shop`. Resolves with a token. */
  async function makeUser(
    name: string,
    rules: readonly object[],
    kind: 'Role' | 'ClusterRole' = 'Role',
    expiresAt = now() + hour,
  ): Promise<string> {
    const { metadata } = await make('/api/v1/namespaces/shop/serviceaccounts', { metadata: { name } })
    const place = kind === 'Role' ? `${rbac}/namespaces/shop` : rbac
    await make(`${place}/${kind.toLowerCase()}s`, { metadata: { name }, rules })
    await make(`${place}/${kind.toLowerCase()}bindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: 'shop' }],
    })
    return kube.signToken({ namespace: 'shop', name, uid: metadata.uid }, expiresAt)
  }

  const serve = (t: Parameters<typeof serveApi>[0]) =>
    serveApi(t, { access: reviewedAccess({ client, clock: systemClock }) })
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  const cases: readonly (readonly [user: keyof typeof tokens, call: string, status: number])[] = [
    ['viewer', `GET ${alice}`, 200],
    ['viewer', 'POST /counters/reset', 403],
    ['viewer', 'POST /counters/raise', 403],
    ['viewer', 'GET /domains/checkout/rules', 200],
    ['viewer', 'GET /domains/checkout/top?rule=checkout.user', 200],
    ['viewer', 'GET /domains?namespace=shop', 200],
    ['viewer', 'GET /domains', 403],
    ['viewer', 'GET /domains/loans/rules', 403],
    ['viewer', 'GET /domains/unknown/rules', 403],
    ['viewer', 'GET /merchants?namespace=shop', 403],
    ['viewer', 'GET /manifest?kind=Merchant&namespace=shop&name=cafe', 403],
    ['viewer', 'GET /resources?kind=Merchant&namespace=shop', 403],
    ['editor', 'POST /counters/reset', 200],
    ['editor', 'POST /counters/raise', 200],
    ['editor', 'GET /domains/checkout/rules', 403],
    ['lister', 'GET /domains', 200],
    ['lister', 'GET /resources', 200],
    ['lister', `GET ${alice}`, 403],
    ['lister', 'GET /tap?domain=checkout', 403],
    ['lister', 'GET /domains/unknown/rules', 404],
    ['stranger', `GET ${alice}`, 403],
    ['stranger', 'GET /streams', 403],
    ['expired', `GET ${alice}`, 401],
  ]
  for (const [user, call, expected] of cases)
    test(`${user}: ${call} is answered with ${expected}`, async t => {
      const { ask, post, lines } = await serve(t)
      const [method, path = ''] = call.split(' ')
      const body = { domain: 'checkout', entries, ...(path.endsWith('raise') && { by: 1 }) }
      const headers = bearer(tokens[user])
      const answer = method === 'POST' ? await post(path, body, headers) : await ask(path, { headers })
      assert.equal(answer.status, expected, JSON.stringify(answer.body))
      const text = JSON.stringify([answer.body, [...answer.headers], lines])
      assert.ok(!text.includes(tokens[user]), 'the token is in an answer or a log line')
      if (expected === 401) assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
    })

  test('the message of a missing right names the user, the right, and the namespace of the call', async t => {
    const { ask } = await serve(t)
    const { body } = await ask('/merchants?namespace=shop', { headers: bearer(tokens.viewer) })
    const expected =
      'system:serviceaccount:shop:viewer may not list merchants of tollway.dev in the namespace shop'
    assert.equal(body.error.message, expected)
  })

  const descriptors = [entries]
  const proposal = (domain: string) => ({
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { namespace: 'shop', name: 'limits' },
    spec: { domain, descriptors: [{ key: 'user' }] },
  })
  const callsByDomain: readonly (readonly [path: string, body?: (domain: string) => object])[] = [
    ['/domains/{domain}/rules'],
    ['/domains/{domain}/top?rule=r'],
    ['/counters?domain={domain}&descriptor=user=alice'],
    ['/series?domain={domain}'],
    ['/history?domain={domain}'],
    ['/tap?domain={domain}'],
    ['/counters/reset', domain => ({ domain, entries })],
    ['/counters/raise', domain => ({ domain, entries, by: 1 })],
    ['/try', domain => ({ domain, descriptors })],
    ['/whatif', proposal],
  ]
  test('each call of the API that names a domain is in the list of calls by domain', () => {
    const named = Object.entries(openApiDocument().paths).filter(([, operations]) =>
      Object.values(operations).some(({ parameters, requestBody }: ApiOperation) =>
        JSON.stringify([parameters, requestBody]).includes('"domain"'),
      ),
    )
    // Its caller needs rights in the namespace that the manifest names, whatever its domain.
    const others = ['/apply']
    assert.deepEqual(
      named.map(([path]) => path.slice(apiPath.length)).sort(),
      [...callsByDomain.map(([path]) => path.replace(/\?.*/, '')), ...others].sort(),
    )
  })

  for (const [path, bodyOf] of callsByDomain)
    test(`${path} does not disclose the namespace of a domain, or whether it exists`, async t => {
      const { ask, post } = await serve(t)
      const headers = bearer(tokens.stranger)
      const answers = ['loans', 'unheard'].map(async domain => {
        const address = path.replace('{domain}', domain)
        const { status, body } = await (bodyOf
          ? post(address, bodyOf(domain), headers)
          : ask(address, { headers }))
        const text = JSON.stringify(body)
        assert.equal(status, 403, text)
        assert.doesNotMatch(text, /bank/)
        return text.replace(domain, '')
      })
      const [known, unknown] = await Promise.all(answers)
      assert.equal(known, unknown)
    })

  for (const [text, authorization] of [
    ['no token', undefined],
    ['an unknown token', 'Bearer canary-7f3a'],
    ['a password', 'Basic Y2FuYXJ5LTdmM2E='],
    ['a long token', `Bearer canary-7f3a${'x'.repeat(5_000)}`],
  ] as const)
    test(`${text} is answered with 401, and does not appear in answers and logs`, async t => {
      const { ask, lines } = await serve(t)
      const { status, body } = await ask(
        alice,
        authorization === undefined ? {} : { headers: { authorization } },
      )
      assert.equal(status, 401)
      assert.doesNotMatch(JSON.stringify([body, lines]), /canary|Y2FuYXJ5/)
    })

  test('a token in the URL is rejected', async t => {
    const { ask } = await serve(t)
    assert.equal((await ask(`${alice}&access_token=${tokens.viewer}`)).status, 401)
  })

  test('the document of the API is readable without a token', async t => {
    const { ask } = await serve(t)
    assert.equal((await ask('/openapi.json')).status, 200)
  })

  test('a change is recorded with the name of the user', async t => {
    const { post, changes, lines } = await serve(t)
    await post('/counters/raise', { domain: 'checkout', entries, by: 3 }, bearer(tokens.editor))
    const user = 'system:serviceaccount:shop:editor'
    assert.equal(changes[0]?.user, user)
    assert.ok(lines.some(line => line.includes(user) && line.includes('change counter')))
    assert.ok(!lines.some(line => line.includes('alice')), 'a value of an entry is in the log')
  })

  test('equal reviews are requested once', async t => {
    let reviews = 0
    const counted = {
      review: ((...args) => {
        reviews += 1
        return client.review(...args)
      }) as KubeClient['review'],
    }
    const { ask } = await serveApi(t, { access: reviewedAccess({ client: counted, clock: systemClock }) })
    const headers = bearer(tokens.viewer)
    await Promise.all(Array.from({ length: 50 }, () => ask(alice, { headers })))
    assert.equal(reviews, 2)
  })

  test('an API server that does not answer leads to 503', async t => {
    const gone = { review: () => Promise.reject(new Error('connect ECONNREFUSED canary')) }
    const { ask } = await serveApi(t, { access: reviewedAccess({ client: gone, clock: systemClock }) })
    const { status, body } = await ask(alice, { headers: bearer(tokens.viewer) })
    assert.equal(status, 503)
    assert.match(body.error.message, /^the API server did not answer a TokenReview: /)
    assert.doesNotMatch(body.error.message, /canary/)
  })
})

const limits = { keepMs: 1_000, maxEntries: 2, maxRunning: 1 }

function open() {
  let nowMs = 0
  const clock = { monotonicMs: () => nowMs, nowMs: () => nowMs }
  const cache = createReviewCache<number>(clock as never, limits, () => new Error('too many'))
  let asked = 0
  const get = (key: string) => cache.get(key, async () => ++asked)
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { cache, get, pass }
}

test('a review is reused until it expires', async () => {
  const { get, pass } = open()
  assert.equal(await get('a'), 1)
  pass(999)
  assert.equal(await get('a'), 1)
  pass(1)
  assert.equal(await get('a'), 2)
})

test('the oldest review is dropped for a new one', async () => {
  const { get } = open()
  for (const key of ['a', 'b', 'c']) await get(key)
  assert.equal(await get('c'), 3)
  assert.equal(await get('a'), 4)
})

test('an error is not cached', async () => {
  const { cache, get } = open()
  await assert.rejects(cache.get('a', () => Promise.reject(new Error('down'))))
  assert.equal(await get('a'), 1)
})

test('no more reviews run at a time than allowed', async () => {
  const { cache, get } = open()
  const { promise, resolve } = Promise.withResolvers<number>()
  const first = cache.get('a', () => promise)
  await assert.rejects(get('b'), /too many/)
  resolve(7)
  assert.equal(await first, 7)
  assert.equal(await get('b'), 1)
})
