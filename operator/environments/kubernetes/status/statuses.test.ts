import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it, type TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { decodeDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import { startApiProxy } from '../../../../test/support/api-proxy.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { createPublishedResources } from '../../../kinds/published-resources.ts'
import { rateLimitConfigs } from '../../../kinds/rate-limit-config/rate-limit-config.ts'
import { type StatusCondition, withTransitionTimes } from '../../../status/conditions.ts'
import { deriveConditions, type StatusFacts } from '../../../status/resource-status.ts'
import type { Resource } from '../../../xds/snapshot.ts'
import { createKubeClient, type KubeClient } from '../api/client.ts'
import { applyWholeStatus, customResource } from '../api/custom-resources.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { followKind } from '../followed-kind.ts'
import { decodeLastGood, encodeLastGood, LastGoodStore } from '../last-good/last-good-store.ts'
import { rememberInObjects } from '../memory.ts'
import {
  accessThrough,
  addressOf,
  makeOperatorAccount,
  writeServiceAccount,
} from '../testing/service-account.ts'
import { StatusWriter } from './status-writer.ts'
import { isOtherChoice, type StoredResource, type StoredStatus, toStoredStatus } from './stored-resource.ts'

const limits = rateLimitConfigs()
const resource = customResource(rateLimitConfigKind)
const namespace = 'shop'
const installation = {
  name: 'tollway',
  namespace,
  revision: '',
  owner: { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: randomUUID() },
}
const path = `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`

describe('statuses on a real API server', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  const folder = temporaryFolder('statuses')
  let api: KubeApiServer
  let client: KubeClient
  let token: string

  before(async () => {
    api = await startKubeApiServer()
    await serveKinds(api, [rateLimitConfigKind])
    token = await makeOperatorAccount(api, namespace)
    const access = writeServiceAccount(folder, await addressOf(api), { namespace, token })
    client = createKubeClient(access, { random: Math.random })
  })
  after(async () => {
    client?.close()
    await api?.stop()
  })

  it('show what is in force, keep the last good version over a restart, and stay unchanged then', async t => {
    const operator = await startOperator(t, client)
    await write(api, 'checkout', { domain: 'checkout', descriptors: [limit('user', 3)] })
    await waitFor('it to be ready', async () => (await ready(api, 'checkout'))?.status === 'True')
    assert.equal(operator.inForce(), 'checkout: 3')
    await operator.told(1)
    assert.deepEqual(operator.transitions, ['checkout True Enforced'])

    await operator.stored('checkout')
    const first = await read(api, 'checkout')
    operator.lookAgain()
    // The API server accepts this, because it has no admission policy.
    await write(api, 'checkout', { domain: 'checkout', descriptors: [limit('user', 4), wrong] })
    await waitFor('it to be rejected', async () => (await ready(api, 'checkout'))?.reason === 'Invalid')
    const rejected = await read(api, 'checkout')
    assert.equal(operator.inForce(), 'checkout: 3')
    assert.equal(rejected.status?.observedGeneration, 2)
    assert.equal(rejected.status?.lastGood, undefined)
    assert.equal(conditionOf(rejected, 'Stalled')?.status, 'True')
    assert.equal(conditionOf(first, 'Stalled'), undefined)
    await operator.told(2)
    assert.deepEqual(operator.transitions.slice(1), ['checkout False Invalid'])
    await operator.stop()
    const left = await read(api, 'checkout')

    const next = await startOperator(t, client)
    assert.equal(next.inForce(), 'checkout: 3')
    next.lookAgain()
    await write(api, 'search', { domain: 'search', descriptors: [limit('user', 1)] })
    await waitFor('the other to be ready', async () => (await ready(api, 'search'))?.status === 'True')
    assert.equal((await read(api, 'checkout')).metadata.resourceVersion, left.metadata.resourceVersion)
  })

  it('are repaired after changes of others, without fields of others', async t => {
    const operator = await startOperator(t, client)
    await write(api, 'repaired', { domain: 'repaired', descriptors: [limit('user', 3)] })
    await waitFor('it to be ready', async () => (await ready(api, 'repaired'))?.status === 'True')
    const { metadata } = await read(api, 'repaired')
    const condition = { ...(await ready(api, 'repaired')), type: 'Theirs' }
    const stored = await read(api, 'repaired')
    const status = {
      ...stored.status,
      enforced: '9/9',
      conditions: [...(stored.status?.conditions ?? []), condition],
    }
    const put = await api.call('PUT', `${path}/repaired/status`, { ...stored, status })
    assert.equal(put.status, 200, JSON.stringify(put.body))
    await waitFor('it to be repaired', async () => (await read(api, 'repaired')).status?.enforced === '1/1')
    const repaired = await read(api, 'repaired')
    assert.ok(conditionOf(repaired, 'Theirs'))
    assert.equal(metadata.uid, repaired.metadata.uid)
    operator.lookAgain()
    await write(api, 'later', { domain: 'later', descriptors: [limit('user', 1)] })
    await waitFor('another to be ready', async () => (await ready(api, 'later'))?.status === 'True')
    assert.equal((await read(api, 'repaired')).metadata.resourceVersion, repaired.metadata.resourceVersion)
  })

  it('are converted from an earlier version, whose last good version stays in force', async t => {
    // The state that an earlier version leaves: generation 2 is invalid, and the status contains the content
    // of generation 1.
    await write(api, 'moved', { domain: 'moved', descriptors: [limit('user', 7), wrong] })
    const rule = { key: 'user', value: '', shadowMode: false, detailedMetric: false, quotaMode: false }
    const policy = { unit: 'minute', requestsPerUnit: 7, unlimited: false, name: '', replaces: [] }
    const more = { valueToMetric: false, shareThreshold: false, rateLimit: policy, descriptors: [] }
    const lastGood = { name: `${namespace}/moved`, domain: 'moved', descriptors: [{ ...rule, ...more }] }
    const [{ metadata }, status] = [
      await read(api, 'moved'),
      { lastGood: { generation: 1, content: encodeLastGood(lastGood) } },
    ]
    await applyWholeStatus(client, resource, { metadata: metadata as KubeObject['metadata'] }, status)

    const operator = await startOperator(t, client)
    assert.match(operator.inForce(), /moved: 7/)
    await waitFor('the status to lose it', async () => {
      const { status } = await read(api, 'moved')
      return status?.conditions !== undefined && status.lastGood === undefined
    })
    await operator.stop()
    const next = await startOperator(t, client)
    assert.match(next.inForce(), /moved: 7/)

    await api.call('DELETE', `${path}/moved`)
    const path1 = `/api/v1/namespaces/${namespace}/configmaps?labelSelector=tollway.dev/last-good`
    const storedKeys = async () => {
      const { items } = (await api.call('GET', path1)).body as { items: { binaryData?: object }[] }
      const keys = items.flatMap(({ binaryData = {} }) => Object.keys(binaryData))
      return keys.filter(key => key.startsWith(`${metadata.uid}.`))
    }
    await waitFor('the deletion to be noted', async () => (await storedKeys()).join().endsWith('.note'))
    next.wait(60_000)
    await waitFor('the deleted resource to be forgotten', async () => (await storedKeys()).length === 0)
  })

  it('are read with their last good versions although half of the responses are errors', async t => {
    const proxy = await startApiProxy({ target: await addressOf(api), seed: 1 })
    t.after(() => proxy.stop())
    proxy.setFaults({ answers: [{ status: 500, share: 0.5 }] })
    const disturbed = createKubeClient(accessThrough(proxy.url, { namespace, token }), {
      random: Math.random,
    })
    t.after(() => disturbed.close())
    const store = openStore(
      disturbed,
      () => false,
      () => {},
    )
    t.after(() => store.stop())
    assert.deepEqual(
      await store.read(),
      await openStore(
        client,
        () => false,
        () => {},
      ).read(),
    )
    assert.ok(proxy.struck() > 3, `${proxy.struck()} errors`)
  })

  it('are not written while another operator leads, and the feed has the resources', async t => {
    const operator = await startOperator(t, client, () => false)
    await write(api, 'follower', { domain: 'follower', descriptors: [limit('user', 3)] })
    await waitFor('the feed to carry it', async () => operator.inForce().includes('follower: 3'))
    assert.equal((await read(api, 'follower')).status, undefined)
  })
})

const wrong = { key: 'step', descriptors: [{ key: 'leaf', rateLimit: { requestsPerUnit: 1 } }] }

function limit(key: string, requestsPerUnit: number, value = '') {
  return { key, value, rateLimit: { unit: 'minute', requestsPerUnit } }
}

function openStore(client: KubeClient, mayWrite: () => boolean, onStored: () => void): LastGoodStore {
  return new LastGoodStore({
    client,
    installation,
    plural: rateLimitConfigKind.plural,
    mayWrite,
    isReadable: ({ text }, { origin }) => decodeLastGood(limits, text, origin) !== undefined,
    onStored,
    onError: () => {},
    random: Math.random,
    spacingMs: 20,
  })
}

/**
 * Starts those parts of an operator that concern statuses. One process enforces published content at once.
 */
async function startOperator(t: TestContext, client: KubeClient, mayWrite = () => true) {
  const { source, list, get, onChange } = followKind(client, resource, [], silentLog)
  const store = openStore(client, mayWrite, () => {
    for (const { metadata } of list()) writer.recheck(metadata.uid ?? '')
  })
  const remembered = rememberInObjects(limits, store, list)
  const transitions: string[] = []
  let published: readonly Resource[] = []
  let waitedMs = 0
  const writer = new StatusWriter({
    stored: get,
    keepsLastGood: uid => !store.isStored(uid),
    apply: async (stored, status) =>
      (await applyWholeStatus(client, resource, stored, status)) as StoredResource,
    mayWrite,
    onTransition: ({ metadata }, { status, reason }) => {
      transitions.push(`${metadata.name} ${status} ${reason}`)
    },
    onError: () => {},
    random: Math.random,
  })
  const configs = createPublishedResources(limits, {
    source,
    remembered,
    feed: {
      publish: ({ resources }) => {
        published = [...resources.values()]
      },
      enforcement: (_, uids) => resource => ({
        acknowledged: new Set(published.includes(resource) ? uids : []),
        rejections: [],
        lacking: [],
      }),
    },
    infrastructure: {
      observe: () => [{ name: 'pod', uid: 'pod', ready: true, reason: '', restarts: 0, addresses: {} }],
    },
    clock: { ...systemClock, nowMs: () => systemClock.nowMs() + waitedMs },
    recheckAfter() {},
    storedConditions: key => writer.storedConditions(key),
    writeStatus: statuses => writer.write(statuses),
  })
  await source.start()
  await remembered.read()
  await configs.reconcile()
  source.onChange(() => void configs.reconcile())
  onChange(uid => writer.recheck(uid))
  const stop = async () => {
    await source.stop()
    await store.stop()
    await writer.stop()
  }
  t.after(stop)
  return {
    transitions,
    /** A change is reported after its write is answered, so other clients may see it earlier. */
    told: (count: number) => waitFor(`${count} changes to be reported`, () => transitions.length >= count),
    inForce: () =>
      published
        .map(({ bytes }) => decodeDomain(bytes))
        .map(({ domain, descriptors: [rule] }) => `${domain}: ${rule?.rateLimit?.requestsPerUnit}`)
        .join(', '),
    /** Continues as if this time had passed. */
    wait(ms: number) {
      waitedMs += ms
      void configs.reconcile()
    },
    lookAgain: () => void configs.reconcile(),
    stored: (name: string) =>
      waitFor(`the last good version of ${name} to be stored`, () => isStored(list(), store, name)),
    stop,
  }
}

function isStored(all: readonly StoredResource[], store: LastGoodStore, name: string): boolean {
  const found = all.find(({ metadata }) => metadata.name === name)
  return store.isStored(found?.metadata.uid ?? '')
}

async function write(api: KubeApiServer, name: string, spec: object): Promise<void> {
  const found = await api.call('GET', `${path}/${name}`)
  const object = { apiVersion, kind: 'RateLimitConfig', metadata: { name }, spec }
  const answer =
    found.status === 404
      ? await api.call('POST', path, object)
      : await api.call('PUT', `${path}/${name}`, { ...(found.body as object), spec })
  assert.ok(answer.status < 300, JSON.stringify(answer.body))
}

async function read(api: KubeApiServer, name: string): Promise<StoredResource> {
  return (await api.call('GET', `${path}/${name}`)).body as StoredResource
}

async function ready(api: KubeApiServer, name: string): Promise<StatusCondition | undefined> {
  return conditionOf(await read(api, name), 'Ready')
}

function conditionOf({ status }: StoredResource, type: string): StatusCondition | undefined {
  return status?.conditions?.find(condition => condition.type === type)
}

describe('a stored status reports', () => {
  const problems = [{ path: 'spec.domain', message: 'is missing' }]
  const denial = { reason: 'DomainConflict', path: 'spec.domain', message: 'belongs to shop/a' }
  const kept = { ...denial, reason: 'ClaimKept' }
  const present = { generation: 2, inForce: 'present' } as const
  const lastGood = { generation: 2, inForce: 'last-good', lastGoodGeneration: 1, problems } as const
  const nothing = { generation: 2, inForce: 'nothing', denial } as const
  const paused = { ...present, paused: true }

  function statusOf({ generation, ...facts }: Partial<StatusFacts> & { readonly generation: number }) {
    const known = {
      problems: [],
      denial: undefined,
      paused: false,
      inForce: 'present',
      unpublished: undefined,
    }
    const all = {
      ...known,
      unmet: undefined,
      running: 2,
      enforcing: 2,
      rejections: [],
      ...facts,
    } as StatusFacts
    return {
      ...{
        kind: 'RateLimitConfig',
        namespace,
        name: 'a',
        uid: 'u',
        origin: 'shop/a',
        subject: '',
        problems: [],
      },
      ...{ observedGeneration: generation, counts: {}, enforced: '2/2' },
      conditions: withTransitionTimes([], deriveConditions(all), generation, 0),
    }
  }

  for (const [what, stored, own, expected] of [
    ['the same choice, with another state of processes', { ...present, enforcing: 1 }, present, false],
    [
      'the same choice, with another end of a kept claim',
      { ...nothing, denial: kept },
      { ...nothing, denial: { ...kept, message: 'later' } },
      false,
    ],
    ['another choice', present, nothing, true],
    ['another reason', nothing, { ...nothing, denial: kept }, true],
    ['a last good version', lastGood, lastGood, false],
    ['another last good version', lastGood, { ...lastGood, lastGoodGeneration: 0 }, true],
    ['a last good version instead of none', lastGood, { ...lastGood, inForce: 'nothing' }, true],
    ['a snapshot that the feed could not carry', { ...present, unpublished: 'too large' }, present, false],
    ['an earlier generation', { ...nothing, generation: 1 }, present, false],
    ['another version of a paused resource', { ...paused, generation: 1 }, paused, true],
    ['a version from before the pause', { ...present, generation: 1 }, paused, false],
  ] as const) {
    it(`${what}: ${expected ? 'another choice' : 'no other choice'}`, () => {
      assert.equal(isOtherChoice(toStoredStatus(statusOf(stored), {}, false), statusOf(own)), expected)
    })
  }

  it('nothing without conditions', () => {
    const none: StoredStatus = { observedGeneration: 2 }
    assert.equal(isOtherChoice(none, statusOf(present)), false)
  })
})
