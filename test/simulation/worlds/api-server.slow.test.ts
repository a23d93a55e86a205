import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { KubeApiError } from '../../../operator/environments/kubernetes/api/api-error.ts'
import { createKubeClient, type KubeClient } from '../../../operator/environments/kubernetes/api/client.ts'
import {
  applyWholeStatus,
  customResource,
} from '../../../operator/environments/kubernetes/api/custom-resources.ts'
import { coreResource, type KubeObject } from '../../../operator/environments/kubernetes/api/kube-object.ts'
import type { WatchEvent } from '../../../operator/environments/kubernetes/api/transport.ts'
import type { StoredStatus } from '../../../operator/environments/kubernetes/status/stored-resource.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../../support/kube-api-server.ts'
import { serveKinds } from '../../support/serve-kinds.ts'
import { Random } from '../engine/hash.ts'
import { Network } from '../engine/network.ts'
import { Simulation } from '../engine/simulation.ts'
import { SimulatedApiServer } from './api-server.ts'

/** The double of the API server answers the calls that the worlds make as a kube-apiserver does. */
const steps = Number(process.env['STEPS'] ?? 200)
const seed = Number(process.env['SEED'] ?? 1)

const configMaps = coreResource('configmaps')
const limits = customResource(rateLimitConfigKind)
const namespace = 'shop'
const kinds = ['limits', 'configMaps'] as const

/** Which version of an object a call names: none, the newest that the client has seen, an older one, or another object. */
type Precondition = 'none' | 'newest' | 'older' | 'other uid'

interface Step {
  readonly call: 'get' | 'list' | 'create' | 'replace' | 'status' | 'delete' | 'watch'
  readonly of: 'limits' | 'configMaps'
  readonly name: string
  readonly value: number
  readonly on: Precondition
  /** Of a watch: how many lists ago its version was read; 5 for one from before the definition of the kind. */
  readonly age: number
}

function generateSteps(): readonly Step[] {
  const random = new Random(seed)
  return Array.from({ length: steps }, () => {
    const call = random.weighted({ create: 6, replace: 8, status: 6, delete: 4, get: 2, list: 2, watch: 0.6 })
    return {
      call,
      of: call === 'status' ? 'limits' : random.pick<Step['of']>(['limits', 'configMaps']),
      name: random.pick(['a', 'b', 'c']),
      value: random.integer(1, 3),
      on: random.weighted({ newest: 5, none: 2, older: 2, 'other uid': 1 }),
      age: random.integer(0, 5),
    }
  })
}

/** Ends each watch: no step has this value. */
const lastValue = 9
const watchedName = 'a'

function toObject(of: Step['of'], name: string, value: number): KubeObject {
  const metadata = { namespace, name }
  if (of === 'configMaps')
    return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { value: `${value}` } }
  const descriptors = [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: value } }]
  return { apiVersion, kind: limits.kind, metadata, spec: { domain: name, descriptors } }
}

function readValue(object: KubeObject): number {
  const { data, spec } = object as {
    data?: { value?: string }
    spec?: { descriptors?: readonly { rateLimit?: { requestsPerUnit?: number } }[] }
  }
  return Number(data?.value ?? spec?.descriptors?.[0]?.rateLimit?.requestsPerUnit)
}

/** Makes all calls, and resolves with what was answered, and with the events of each watch. */
async function play(client: KubeClient, all: readonly Step[]): Promise<readonly string[]> {
  const resources = { limits, configMaps }
  const transcript: string[] = []
  /** All versions of each object that were seen, the newest last. */
  const seen = new Map<string, KubeObject['metadata'][]>()
  /** The versions of all lists. */
  const listed: Record<Step['of'], string[]> = { limits: [], configMaps: [] }
  const [uids, versions] = [new Map<string, number>(), new Map<string, number>()]
  const watches: Promise<readonly WatchEvent[] | string>[] = []
  const stopping = new AbortController()

  /** Returns the number of an id, in the order of their first appearance. */
  function toNumber(numbers: Map<string, number>, id: string): number {
    const found = numbers.get(id) ?? numbers.size
    numbers.set(id, found)
    return found
  }

  /** Describes an object without what differs between two servers. Remembers its version for later calls. */
  function show(of: Step['of'] | undefined, object: KubeObject | undefined): string {
    if (object === undefined) return 'nothing'
    const { name, uid = '', resourceVersion = '', generation } = object.metadata
    const { observedGeneration } = (object['status'] ?? {}) as StoredStatus
    const key = `${of} ${name}`
    const known = seen.get(key) ?? []
    if (known.at(-1)?.resourceVersion !== resourceVersion) seen.set(key, [...known, object.metadata])
    const ids = `object ${toNumber(uids, uid)}, version ${toNumber(versions, resourceVersion)}`
    return `${name}=${readValue(object)} (${ids}, generation ${of === 'limits' ? generation : ''}, status ${observedGeneration})`
  }

  function versionOf({ of, name, on }: Step): Partial<Record<'uid' | 'resourceVersion', string>> {
    const known = seen.get(`${of} ${name}`) ?? []
    const { uid, resourceVersion } = known.at(on === 'older' ? -2 : -1) ?? {}
    if (on === 'none' || uid === undefined || resourceVersion === undefined) return {}
    return on === 'other uid' ? { uid: '00000000-0000-4000-8000-000000000000' } : { uid, resourceVersion }
  }

  async function list(of: Step['of']): Promise<readonly KubeObject[]> {
    const { items, resourceVersion } = await client.list(resources[of], { namespace, limit: 500 })
    listed[of].push(resourceVersion)
    return items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
  }

  /** Resolves with all events up to the last change, or with the error. */
  async function watch(of: Step['of'], resourceVersion: string, fieldSelector?: string) {
    const events: WatchEvent[] = []
    try {
      const { signal } = stopping
      const options = { namespace, fieldSelector, resourceVersion, timeoutSeconds: 3_000, signal }
      for await (const event of client.watch(resources[of], options)) {
        if (event.type !== 'BOOKMARK') events.push(event)
        if (readValue(event.object) === lastValue) break
      }
      return events
    } catch (error) {
      return describeError(error)
    }
  }

  async function take(step: Step): Promise<string> {
    const { call, of, name, value } = step
    const resource = resources[of]
    const key = { namespace, name }
    switch (call) {
      case 'get':
        return show(of, await client.get(resource, key))
      case 'list':
        return (await list(of)).map(object => show(of, object)).join(', ')
      case 'create':
        return show(of, await client.create(resource, toObject(of, name, value)))
      case 'replace': {
        const version = versionOf(step)
        // A custom resource is replaced only with its version.
        if (of === 'limits' && version.resourceVersion === undefined) return 'is not called'
        const object = toObject(of, name, value)
        return show(of, await client.replace(resource, { ...object, metadata: { ...key, ...version } }))
      }
      case 'status': {
        const metadata = { ...key, ...versionOf(step) }
        return show(of, await applyWholeStatus(client, limits, { metadata }, { observedGeneration: value }))
      }
      case 'delete': {
        const { uid, resourceVersion } = versionOf(step)
        if (uid === undefined) return 'is not called'
        await client.delete(resource, { ...key, uid, resourceVersion })
        return 'deleted'
      }
      case 'watch': {
        // A kube-apiserver knows no event of a kind from before its definition.
        const isTooOld = of === 'limits' && step.age === 5
        const version = isTooOld ? '1' : (listed[of].at(-1 - step.age) ?? listed[of][0] ?? '')
        const isSelected = of === 'configMaps' && value === 1
        watches.push(watch(of, version, isSelected ? `metadata.name=${watchedName}` : undefined))
        return 'opened'
      }
    }
  }

  for (const kind of kinds) {
    await list(kind)
    watches.push(watch(kind, listed[kind][0] ?? ''))
  }
  for (const step of all) {
    const answer = await take(step).catch(describeError)
    transcript.push(`${JSON.stringify(step)}: ${answer}`)
  }
  for (const kind of kinds) {
    const found = await client.get(resources[kind], { namespace, name: watchedName })
    const { uid, resourceVersion } = found?.metadata ?? {}
    const object = toObject(kind, watchedName, lastValue)
    const metadata = { ...object.metadata, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) }
    const last = found
      ? client.replace(resources[kind], { ...object, metadata })
      : client.create(resources[kind], object)
    transcript.push(`the last change: ${show(kind, await last)}`)
  }
  // Numbers are given in the order of the transcript, so events are shown when all have arrived.
  for (const [index, events] of (await Promise.all(watches)).entries()) {
    const shown =
      typeof events === 'string'
        ? events
        : events.map(({ type, object }) => `${type} ${show(undefined, object)}`).join('\n')
    transcript.push(`watch ${index}: ${shown}`)
  }
  stopping.abort()
  return transcript
}

function describeError(error: unknown): string {
  if (error instanceof KubeApiError) return `${error.code} ${error.reason}`
  throw error
}

async function playSimulated(all: readonly Step[]): Promise<readonly string[]> {
  const simulation = new Simulation(seed)
  const api = new SimulatedApiServer(simulation, new Network(simulation))
  // The versions from before the start are forgotten.
  api.compact()
  let transcript: readonly string[] = []
  simulation.start('client', process => {
    void play(api.client(process), all).then(result => {
      transcript = result
    })
  })
  await simulation.run(3_600_000)
  assert.equal(simulation.violation, undefined)
  return transcript
}

describe('the simulated API server', { skip: missingKubeAssets(), timeout: 300_000 }, () => {
  let api: KubeApiServer

  before(async () => {
    api = await startKubeApiServer()
    await serveKinds(api, [rateLimitConfigKind])
    await api.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
  })
  after(() => api?.stop())

  it(`answers ${steps} random calls as a kube-apiserver does, with the same events`, async () => {
    const all = generateSteps()
    const headers = { authorization: `Bearer ${api.token}` }
    const credentials = async () => ({ headers, tls: { rejectUnauthorized: false } })
    const client = createKubeClient(
      { server: new URL(api.url), namespace, credentials },
      { random: Math.random },
    )
    const real = await play(client, all)
    client.close()
    const simulated = await playSimulated(all)
    for (const [index, line] of real.entries())
      assert.equal(simulated[index], line, `SEED=${seed} STEPS=${steps}`)
    assert.equal(simulated.length, real.length)
  })
})
