import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { openRememberedFile } from '../../environments/host/memory.ts'
import { folderSecrets } from '../../environments/host/secrets.ts'
import type { OpenedStreamRoute } from '../../model.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { Resource } from '../../xds/snapshot.ts'
import { createPublishedResources } from '../published-resources.ts'
import type { SourcedResource } from '../source.ts'
import { animationStreamRoute } from './animation-stream-route.ts'

/** Simulates an operator with routes and Secrets that the test writes, and brokers that enforce at once. */
function openWorld() {
  const reference = temporaryFolder('routes')
  const path = join(reference, 'remembered.json')
  const resources = new Map<string, SourcedResource>()
  const replicas = ['first', 'second'].map(uid => ({
    name: `broker-${uid}`,
    uid,
    ready: true,
    reason: '',
    restarts: 0,
    addresses: {},
  }))
  let [generation, nowMs] = [0, 0]
  const encoded = new Map<Resource, OpenedStreamRoute>()
  let published: readonly OpenedStreamRoute[] = []
  let statuses: readonly ResourceStatus[] = []
  const observed: string[] = []
  const loads = new Map<string, number>()

  const start = () => {
    const kind = animationStreamRoute.open({
      routeSecrets: folderSecrets({ list: () => [...resources.values()], onChange: () => {} }),
      loads: {
        sum: (route, uids) => ({ activeStreams: loads.get(route) ?? 0, consumers: uids.length }),
        onChange: () => {},
      },
    })
    const recorded = {
      ...kind,
      encode(route: OpenedStreamRoute) {
        const resource = kind.encode(route)
        encoded.set(resource, route)
        return resource
      },
    }
    return createPublishedResources(recorded, {
      source: { list: () => [...resources.values()], unread: () => [] },
      remembered: openRememberedFile(path, [kind], text => assert.fail(text)).of(kind),
      feed: {
        publish: ({ resources }) => {
          published = [...resources.values()].flatMap(resource => encoded.get(resource) ?? [])
        },
        enforcement: (_, uids) => resource => ({
          acknowledged: new Set(published.some(route => route === encoded.get(resource)) ? uids : []),
          rejections: [],
          lacking: [],
        }),
      },
      infrastructure: {
        observe(workload) {
          observed.push(workload)
          return replicas
        },
      },
      clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
      recheckAfter() {},
      writeStatus: now => {
        statuses = now
      },
    })
  }
  let routes = start()

  function put(kind: string, id: string, spec: unknown): void {
    const [namespace = '', name = ''] = id.split('/')
    const apiVersion = kind === 'Secret' ? 'v1' : 'tollway.dev/v1alpha1'
    generation += 1
    resources.set(`${kind} ${id}`, {
      apiVersion,
      kind,
      namespace,
      name,
      uid: `${kind} ${id}`,
      generation,
      paused: false,
      spec,
      origin: `${id}.yaml`,
    })
  }
  return {
    loads,
    observed,
    replicas,
    published: () => published,
    route: (id: string, spec: object) => put('AnimationStreamRoute', id, spec),
    secret: (id: string, stringData: object) => put('Secret', id, { stringData }),
    removeRoute: (id: string) => resources.delete(`AnimationStreamRoute ${id}`),
    removeSecret: (id: string) => resources.delete(`Secret ${id}`),
    restart() {
      routes = start()
    },
    /** Reconciles after a second. Resolves with `NAME PREFIX: NUMBER OF TOKENS` of each published route. */
    async reconcile(): Promise<string> {
      nowMs += 1_000
      await routes.reconcile()
      return published
        .map(({ route, tokens: { push: tokenHashes } }) => {
          const isClosed = tokenHashes.some(hash => hash.every(byte => byte === 0))
          const tokens = isClosed ? 'closed' : `${tokenHashes.length}`
          return `${route.name} ${route.match.streamIdPrefix}: ${tokens}`
        })
        .join(', ')
    },
    status(id: string): ResourceStatus {
      const found = statuses.find(({ namespace, name }) => `${namespace}/${name}` === id)
      assert.ok(found, `there is no status of ${id}`)
      return found
    },
  }
}

/** Returns the reasons of Accepted, Programmed, Enforced and Ready. */
const reasonsOf = ({ conditions }: ResourceStatus) =>
  conditions
    .slice(0, 4)
    .map(({ reason }) => reason)
    .join(' ')

const kiosk = { match: { streamIdPrefix: 'kiosk-' } }
const withToken = { ...kiosk, tokenSecretRef: { name: 'tokens' } }

test('a route is published to brokers, and its status has their enforcement and load', async () => {
  const world = openWorld()
  world.route('shop/kiosk', kiosk)
  world.loads.set('shop/kiosk', 3)
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 0')
  const { subject, counts, enforced } = world.status('shop/kiosk')
  assert.deepEqual(
    { subject, counts, enforced },
    { subject: 'kiosk-', counts: { activeStreams: 3, consumers: 2 }, enforced: '2/2' },
  )
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Valid InFeed Enforced Enforced')
  assert.deepEqual(new Set(world.observed), new Set(['broker']))
  assert.equal(world.published()[0]?.createdMs, 1_000, 'the creation time')
})

test('tokens come from a Secret of the namespace, and only their hashes are published', async () => {
  const world = openWorld()
  world.secret('shop/tokens', { token: 'first' })
  world.route('shop/kiosk', withToken)
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 1')
  assert.deepEqual(world.published()[0]?.tokens.push, [createHash('sha256').update('first').digest()])
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Valid InFeed Enforced Enforced')
  const before = world.published()[0]
  await world.reconcile()
  assert.equal(world.published()[0], before, 'the same object until a change')

  world.secret('shop/tokens', { token: 'first\nsecond' })
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 2')
  assert.doesNotMatch(JSON.stringify(world.status('shop/kiosk')), /first|second/)
})

test('tokens to push and tokens to pull come from separate Secrets', async () => {
  const world = openWorld()
  const hashOf = (text: string) => createHash('sha256').update(text).digest()
  world.secret('shop/tokens', { token: 'both' })
  world.secret('shop/push', { token: 'in' })
  const refs = { pushTokenSecretRef: { name: 'push' }, pullTokenSecretRef: { name: 'pull', key: 'out' } }
  world.route('shop/kiosk', { ...withToken, ...refs })
  await world.reconcile()
  const closed = new Uint8Array(32)
  const push = [hashOf('both'), hashOf('in')]
  assert.deepEqual(world.published()[0]?.tokens, { push, pull: [hashOf('both'), closed] })
  const programmed = world.status('shop/kiosk').conditions.find(({ type }) => type === 'Programmed')
  const message = 'the Secret shop/pull does not exist; the route takes no pulls for its tokens until then'
  assert.deepEqual([programmed?.reason, programmed?.message], ['SecretMissing', message])
  world.secret('shop/pull', { out: 'out' })
  await world.reconcile()
  assert.deepEqual(world.published()[0]?.tokens, { push, pull: [hashOf('both'), hashOf('out')] })
  world.route('shop/kiosk', { ...kiosk, pushTokenSecretRef: { name: 'push' } })
  await world.reconcile()
  assert.deepEqual(world.published()[0]?.tokens, { push: [hashOf('in')], pull: [] })
})

test('a route that overlaps another one with different tokens is ready with a warning', async () => {
  const world = openWorld()
  const advisoryOf = (name: string) => world.status(name).conditions.find(({ type }) => type === 'Doubtful')
  world.secret('shop/tokens', { token: 'first' })
  world.route('shop/kiosk', withToken)
  world.route('shop/open', { match: { streamIdPrefix: 'kiosk-', sourceServiceId: 'other' } })
  await world.reconcile()
  assert.equal(reasonsOf(world.status('shop/open')), 'Valid InFeed Enforced Enforced')
  for (const name of ['shop/kiosk', 'shop/open']) {
    assert.equal(advisoryOf(name)?.reason, 'OpenOverlap')
    assert.match(advisoryOf(name)?.message ?? '', /shop\/kiosk.*shop\/open|shop\/open.*shop\/kiosk/)
  }
  world.route('shop/open', { match: { streamIdPrefix: 'stage-' } })
  await world.reconcile()
  assert.deepEqual([advisoryOf('shop/kiosk'), advisoryOf('shop/open')], [undefined, undefined])
})

test('a route whose Secret may not be read reports the missing grant, and keeps the known tokens', () => {
  const advice = 'An administrator grants it with: a command'
  const closed = 'the route is closed to all callers until then'
  const kept = 'the tokens that were read before stay in force'
  const known = [new Uint8Array(32).fill(1)]
  for (const [tokens, effect, hashes] of [
    [{ forbidden: advice }, closed, [new Uint8Array(32)]],
    [{ hashes: known, forbidden: advice }, kept, known],
  ] as const) {
    const signing = () => ({ unknown: true }) as const
    const secrets = { follow: async () => {}, tokens: () => tokens, signing, onChange: () => {} }
    const kind = animationStreamRoute.open({
      routeSecrets: secrets,
      loads: { sum: () => ({ activeStreams: 0, consumers: 0 }), onChange: () => {} },
    })
    const spec = { match: { streamIdPrefix: 'kiosk-' }, tokenSecretRef: { name: 'tokens' } }
    const { apiVersion, kind: name } = { apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute' }
    const metadata = { name: 'kiosk', namespace: 'shop' }
    const translation = kind.translate('shop/kiosk', { apiVersion, kind: name, metadata, spec })
    assert.ok('value' in translation)
    const { unmet, published } = kind.complete(translation.value, 0)
    const message = `the operator may not read the Secret shop/tokens; ${effect}. ${advice}`
    assert.deepEqual(unmet, { reason: 'SecretForbidden', message })
    assert.deepEqual(published.tokens, { push: hashes, pull: hashes })
  }
})

test('a route without its Secret is closed to all callers, and reports the missing Secret', async () => {
  const world = openWorld()
  world.secret('other/tokens', { token: 'theirs' })
  world.route('shop/kiosk', withToken)
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: closed')
  const closed = 'the route is closed to all callers until then'
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Valid SecretMissing Enforced SecretMissing')
  const messageOf = () =>
    world.status('shop/kiosk').conditions.find(({ type }) => type === 'Programmed')?.message
  assert.equal(messageOf(), `the Secret shop/tokens does not exist; ${closed}`)
  world.secret('shop/tokens', { other: 'abc' })
  await world.reconcile()
  assert.equal(messageOf(), `the Secret shop/tokens has no entry token; ${closed}`)
  world.secret('shop/tokens', { token: 'abc' })
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 1')
  world.removeSecret('shop/tokens')
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: closed')
  world.restart()
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: closed')
})

const signing = [1, 2].map(byte => `whsec_${Buffer.alloc(24, byte).toString('base64')}`)
const url = 'https://example.org/hook'
const withWebhook = { ...kiosk, notify: { webhook: { url, secretRef: { name: 'signing' } } } }

test('a webhook has the secrets of its Secret, and follows their rotation', async () => {
  const world = openWorld()
  world.secret('shop/signing', { secret: signing[0] })
  world.route('shop/kiosk', withWebhook)
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 0')
  const [before] = world.published()
  assert.deepEqual(before?.webhook, { url, secrets: signing.slice(0, 1) })
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Valid InFeed Enforced Enforced')
  await world.reconcile()
  assert.equal(world.published()[0], before, 'the same object until a change')
  world.secret('shop/signing', { secret: signing.join('\n') })
  await world.reconcile()
  assert.deepEqual(world.published()[0]?.webhook, { url, secrets: signing })
  for (const secret of signing) assert.ok(!JSON.stringify(world.status('shop/kiosk')).includes(secret))
  world.restart()
  await world.reconcile()
  assert.deepEqual(world.published()[0]?.webhook, { url, secrets: signing })
})

test('a route without its signing secret serves streams, posts nothing and reports the reason', async () => {
  const world = openWorld()
  world.route('shop/kiosk', withWebhook)
  const without = 'the webhook receives no message until then'
  const assertLacks = async (message: string) => {
    assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 0')
    assert.equal(world.published()[0]?.webhook, undefined)
    const programmed = world.status('shop/kiosk').conditions.find(({ type }) => type === 'Programmed')
    assert.deepEqual([programmed?.reason, programmed?.message], ['SecretMissing', `${message}; ${without}`])
  }
  await assertLacks('the Secret shop/signing does not exist')
  world.secret('shop/signing', { other: 'abc' })
  await assertLacks('the Secret shop/signing has no entry secret')
  world.secret('shop/signing', { secret: 'canary' })
  const form = '"whsec_" and 24 to 64 bytes in base64 is allowed'
  await assertLacks(
    `the Secret shop/signing has an entry secret whose line 1 does not begin with "whsec_"; ${form}`,
  )
  world.secret('shop/signing', { secret: signing[0] })
  await world.reconcile()
  assert.deepEqual(world.published()[0]?.webhook, { url, secrets: signing.slice(0, 1) })
  world.removeSecret('shop/signing')
  await assertLacks('the Secret shop/signing does not exist')
})

test('an invalid route keeps its last good version, and still requires its token', async () => {
  const world = openWorld()
  world.secret('shop/tokens', { token: 'abc' })
  world.route('shop/kiosk', withToken)
  await world.reconcile()
  world.route('shop/kiosk', { match: { streamIdPrefix: 'kiosk-' }, slowConsumers: 'forceShutdown' })
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 1')
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Invalid LastGoodInForce LastGoodInForce Invalid')
  world.restart()
  world.removeSecret('shop/tokens')
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: closed')
})

test('a prefix belongs to the oldest route, also after a restart', async () => {
  const world = openWorld()
  world.route('shop/kiosk', kiosk)
  await world.reconcile()
  world.route('arcade/kiosk', { match: { streamIdPrefix: 'kiosk-vip-' } })
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 0')
  world.restart()
  assert.equal(await world.reconcile(), 'shop/kiosk kiosk-: 0')
  const { conditions, counts, subject } = world.status('arcade/kiosk')
  assert.equal(conditions[0]?.reason, 'PrefixConflict')
  assert.equal(
    conditions[0]?.message,
    'spec.match.streamIdPrefix: "kiosk-vip-" overlaps "kiosk-", which belongs to the namespace shop by ' +
      'shop/kiosk, which is older; name another',
  )
  assert.deepEqual({ counts, subject }, { counts: { activeStreams: 0, consumers: 0 }, subject: 'kiosk-vip-' })
})

test('a longer prefix of another namespace waits a minute after the route with the prefix is deleted', async () => {
  const world = openWorld()
  world.route('shop/kiosk', kiosk)
  await world.reconcile()
  world.route('arcade/kiosk', { match: { streamIdPrefix: 'kiosk-vip-' } })
  world.route('arcade/news', { match: { streamIdPrefix: 'news-' } })
  await world.reconcile()
  world.removeRoute('shop/kiosk')
  assert.equal(await world.reconcile(), 'arcade/news news-: 0')
  const [accepted] = world.status('arcade/kiosk').conditions
  assert.equal(accepted?.reason, 'ClaimKept')
  assert.match(
    accepted?.message ?? '',
    /^spec\.match\.streamIdPrefix: "kiosk-vip-" overlaps "kiosk-", which belonged to shop\/kiosk, which was deleted; it is kept for the namespace shop until 1970-01-01T/,
  )
  world.restart()
  assert.equal(await world.reconcile(), 'arcade/news news-: 0')
  world.route('shop/kiosk', kiosk)
  assert.equal(await world.reconcile(), 'arcade/news news-: 0, shop/kiosk kiosk-: 0')
  assert.equal(world.status('arcade/kiosk').conditions[0]?.reason, 'PrefixConflict')
})

test('processes that take no calls are left out of the enforcement', async () => {
  const world = openWorld()
  world.route('shop/kiosk', kiosk)
  for (const replica of world.replicas) replica.ready = false
  await world.reconcile()
  assert.equal(world.status('shop/kiosk').enforced, '0/0')
  assert.equal(reasonsOf(world.status('shop/kiosk')), 'Valid InFeed NoProcess NoProcess')
})
