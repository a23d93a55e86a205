import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { Workload } from '../../../model.ts'
import type { SecretContent } from '../api/secrets.ts'
import { createSecretDigests } from './secret-digests.ts'

const redis = { name: 'redis', secretName: 'redis', keys: ['url'], folder: '/etc/redis' }
const feed = { name: 'feed', secretName: 'feed', folder: '/etc/feed', isReread: true } as const

describe('digests of Secrets', () => {
  it('change only with the entries that a workload reads', async () => {
    const { secrets, digests } = open()
    const first = await digests.read()
    assert.match(first.get('ratelimit') ?? '', /^[0-9a-f]{16}$/)
    secrets.set('redis', secret({ url: 'redis://a', other: 'changed' }))
    secrets.set('feed', secret({ 'tls.crt': 'renewed' }))
    assert.deepEqual(await digests.read(), first)
    secrets.set('redis', secret({ url: 'redis://b' }))
    assert.notDeepEqual(await digests.read(), first)
  })

  it('are keyed by the uid of the Secret', async () => {
    const { secrets, digests } = open()
    const first = await digests.read()
    secrets.set('redis', { ...secret({ url: 'redis://a' }), uid: 'another' })
    assert.notDeepEqual(await digests.read(), first)
  })

  it('are missing while a Secret is missing, and when all its files are read again', async () => {
    const { secrets, digests } = open()
    secrets.delete('redis')
    assert.deepEqual(await digests.read(), new Map())
  })

  it('are read at intervals by the leader, which reports each change and each new problem once', async t => {
    const { secrets, digests, problems, state } = open()
    let changes = 0
    digests.onChange(() => {
      changes += 1
    })
    await digests.read()
    digests.start()
    t.after(() => digests.stop())
    secrets.set('redis', secret({ url: 'redis://b' }))
    await waitFor('the change', () => changes > 0)
    await digests.read()
    const seen = changes

    state.failure = new Error('the API server is away')
    await waitFor('the problem', () => problems.length > 0)
    const readsBefore = state.reads
    await waitFor('more reads', () => state.reads > readsBefore + 2)
    assert.deepEqual(problems, ['the API server is away'])

    state.failure = undefined
    state.leads = false
    secrets.set('redis', secret({ url: 'redis://c' }))
    const { looks } = state
    await waitFor('more intervals', () => state.looks > looks + 3)
    assert.equal(changes, seen)
    state.leads = true
    await waitFor('the change to be reported', () => changes > seen)
  })
})

function secret(data: Readonly<Record<string, string>>): SecretContent {
  return { data, version: 'uid/1', uid: 'uid', isOwned: true }
}

function open() {
  const secrets = new Map([
    ['redis', secret({ url: 'redis://a', other: 'x' })],
    ['feed', secret({ 'tls.crt': 'first' })],
  ])
  const problems: string[] = []
  const state = { leads: true, looks: 0, reads: 0, failure: undefined as Error | undefined }
  const workload: Workload = {
    name: 'ratelimit',
    service: 'ratelimit',
    replicas: 1,
    env: {},
    ports: [],
    stopGraceMs: 0,
    secretFiles: [feed, redis],
  }
  const digests = createSecretDigests({
    workloads: [workload],
    async get(name) {
      state.reads += 1
      if (state.failure !== undefined) throw state.failure
      return secrets.get(name)
    },
    mayWrite() {
      state.looks += 1
      return state.leads
    },
    onProblem: message => problems.push(message),
    random: () => 0,
    intervalMs: 1,
  })
  return { secrets, digests, problems, state }
}
