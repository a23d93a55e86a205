import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isObject } from '@tollway/chassis/is-object.ts'
import { missingKubeAssets } from '../../../../test/support/kube-api-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import { infrastructureContract } from '../../../testing/provider.contract.ts'
import type { KubeObject } from '../api/kube-object.ts'
import type { ContestedObject } from './contested-objects.ts'
import { kinds } from './kinds.ts'
import {
  autoscaling,
  type ClusterUnderTest,
  mainName,
  owner,
  podShape,
  rateLimit,
  startCluster,
} from './testing/cluster-under-test.ts'

const allNames = [
  'ServiceAccount/tollway-ratelimit',
  'NetworkPolicy/tollway-ratelimit',
  'Service/tollway-ratelimit',
  'Service/tollway-ratelimit-http',
  'PodDisruptionBudget/tollway-ratelimit',
  'Deployment/tollway-ratelimit',
]
const autoscaler = 'HorizontalPodAutoscaler/tollway-ratelimit'
const repairMs = 5_000

describe('workloads of a real API server', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: ClusterUnderTest
  before(async () => {
    cluster = await startCluster(1)
  })
  after(() => cluster?.stop())

  const isWrite = ({ method }: { method: string }) => method !== 'GET'
  const writes = () => cluster.proxy.calls().filter(isWrite).length
  /** Asserts that no call other than a watch is made in this time. */
  const idle = async (ms: number) => {
    const count = () => cluster.proxy.calls().filter(({ path }) => !path.includes('watch=true')).length
    const begun = count()
    await pause(ms)
    assert.deepEqual(
      cluster.proxy
        .calls()
        .filter(({ path }) => !path.includes('watch=true'))
        .slice(begun),
      [],
    )
  }

  infrastructureContract('kubernetes', async t => {
    const opened = await cluster.openNamespace(t)
    opened.startController()
    return {
      infrastructure: opened.infrastructure(),
      workload: (replicas, setting) => rateLimit({ replicas, env: { SETTING: setting } }),
      deadlineMs: 20_000,
    }
  })

  it('are created with all objects, and then need no write', async t => {
    const { infrastructure, names, get } = await cluster.openNamespace(t)
    const made = infrastructure()
    await made.apply(rateLimit())
    assert.deepEqual(await names(), allNames)
    const { metadata } = (await get('Deployment')) ?? assert.fail('there is no Deployment')
    assert.deepEqual(metadata['ownerReferences'], [owner])
    await idle(700)
    await made.apply(rateLimit())
    await idle(100)
  })

  it('need no write of a second operator', async t => {
    const { infrastructure } = await cluster.openNamespace(t)
    await infrastructure().apply(rateLimit({ autoscaling }))
    const before = writes()
    await infrastructure().apply(rateLimit({ autoscaling }))
    assert.equal(writes() - before, 0)
  })

  it('lose obsolete objects, and leave foreign ones alone', async t => {
    const { infrastructure, names, edit } = await cluster.openNamespace(t)
    const made = infrastructure()
    await made.apply(rateLimit({ autoscaling }))
    const labels = { 'app.kubernetes.io/managed-by': 'tollway', 'app.kubernetes.io/instance': 'tollway' }
    await edit(
      'ServiceAccount',
      { metadata: { labels: { ...labels, 'app.kubernetes.io/name': 'ratelimit' } } },
      'copy',
    )
    assert.deepEqual(await names(), ['ServiceAccount/copy', ...allNames, autoscaler])
    await made.apply(rateLimit({ replicas: 1, ports: [] }))
    const left = ['ServiceAccount', 'NetworkPolicy', 'Deployment'].map(kind => `${kind}/${mainName}`)
    assert.deepEqual(await names(), ['ServiceAccount/copy', ...left])
    await made.remove('ratelimit')
    assert.deepEqual(await names(), ['ServiceAccount/copy'])
  })

  const edits: readonly (readonly [string, Parameters<NamespaceEdit>[0], Parameters<NamespaceEdit>[1]])[] = [
    ['replicas', 'Deployment', { spec: { replicas: 7 } }],
    ['a label', 'Service', { metadata: { labels: { 'app.kubernetes.io/managed-by': 'somebody' } } }],
    ['a selector', 'Service', { spec: { selector: { app: 'other' } } }],
    ['the budget', 'PodDisruptionBudget', { spec: { maxUnavailable: '100%' } }],
    ['the policy', 'NetworkPolicy', { spec: { podSelector: {}, ingress: [{}] } }],
    ['the account', 'ServiceAccount', { automountServiceAccountToken: true }],
  ]
  it('are repaired soon after changes of others', async t => {
    const { infrastructure, edit, get } = await cluster.openNamespace(t)
    await infrastructure().apply(rateLimit())
    for (const [what, kind, change] of edits) {
      const before = decided(await get(kind))
      await edit(kind, change)
      await waitFor(`${what} to be repaired`, async () => isEqual(decided(await get(kind)), before), repairMs)
    }
  })

  it('get deleted objects back, and keep what others add', async t => {
    const { infrastructure, edit, get, names, delete: remove } = await cluster.openNamespace(t)
    await infrastructure().apply(rateLimit())
    await edit('Deployment', { metadata: { annotations: { theirs: 'x' } } })
    await remove('Service')
    await remove('NetworkPolicy')
    await remove('Service', `${mainName}-http`)
    await waitFor('all to be there', async () => isEqual(await names(), allNames), repairMs)
    await idle(300)
    assert.equal((await get('Deployment'))?.metadata.annotations?.['theirs'], 'x')
  })

  it('report an object that a finalizer holds, and create it again afterwards', async t => {
    const { infrastructure, edit, get, problems, delete: remove } = await cluster.openNamespace(t)
    await infrastructure().apply(rateLimit())
    await edit('Service', { metadata: { finalizers: ['example.com/hold'] } })
    await remove('Service')
    await waitFor('a report', () =>
      problems.some(problem => /being deleted.*example.com\/hold/.test(problem)),
    )
    await edit('Service', { metadata: { finalizers: [] } })
    await waitFor('a new one', async () => {
      const found = await get('Service')
      return found !== undefined && found.metadata.deletionTimestamp === undefined
    })
  })

  it('get two repairs a minute, and a report that names the other program', async t => {
    const { infrastructure, edit, get, problems } = await cluster.openNamespace(t)
    const begun: ContestedObject[] = []
    const made = infrastructure({ onContested: contested => begun.push(contested) })
    await made.apply(rateLimit())
    const before = writes()
    const isTheirs = async () => replicasOf(await get('Deployment')) === 7
    for (let time = 0; time < 2; time += 1) {
      await edit('Deployment', { spec: { replicas: 7 } })
      await waitFor('a repair', async () => !(await isTheirs()), repairMs)
    }
    await edit('Deployment', { spec: { replicas: 7 } })
    await waitFor('a report', () =>
      problems.some(problem => /Deployment "tollway-ratelimit" was changed 3 times/.test(problem)),
    )
    await edit('Deployment', { spec: { replicas: 7 }, metadata: { labels: { more: 'x' } } })
    await idle(300)
    assert.ok(await isTheirs())
    assert.equal(writes() - before, 2)
    assert.equal(problems.length, 1, problems.join('\n'))
    assert.deepEqual(
      begun.map(({ message }) => message),
      problems,
    )
    assert.match(problems[0] ?? '', /the manager "[\w-]+" changes it/)
    assert.doesNotMatch(problems[0] ?? '', /"tollway"|"unknown"/)
    const uid = (await get('Deployment'))?.metadata.uid
    assert.deepEqual(
      made.contestedObjects().map(({ object }) => [object.kind, object.metadata.uid]),
      [['Deployment', uid]],
    )
  })

  it('start with their replicas when autoscaled, and keep those of the autoscaler', async t => {
    const { infrastructure, get, edit, namespace, client } = await cluster.openNamespace(t)
    const made = infrastructure()
    const replicas = async () => replicasOf(await get('Deployment'))
    await made.apply(rateLimit({ replicas: 3, autoscaling }))
    assert.equal(await replicas(), 3)
    await edit('Deployment', { spec: { replicas: 8 } })
    await made.apply(rateLimit({ replicas: 3, autoscaling, env: { A: 'b' } }))
    assert.equal(await replicas(), 8)
    await made.apply(rateLimit({ replicas: 4 }))
    assert.equal(await replicas(), 4)
    const seen: unknown[] = []
    const resourceVersion = (await get('Deployment'))?.metadata.resourceVersion ?? ''
    await made.apply(rateLimit({ replicas: 4, autoscaling }))
    const { signal } = new AbortController()
    const watched = { namespace, resourceVersion, timeoutSeconds: 1, signal }
    for await (const { type, object } of client.watch(kinds.Deployment, watched)) {
      if (type !== 'BOOKMARK') seen.push(replicasOf(object))
    }
    assert.ok(seen.length > 0)
    assert.deepEqual(new Set(seen), new Set([4]), 'no other number at any time')
  })

  it('are written only by the leader, until its term ends', async t => {
    const { infrastructure, names, edit, get } = await cluster.openNamespace(t)
    let leads = false
    const made = infrastructure({ mayWrite: () => leads })
    await assert.rejects(made.apply(rateLimit()), (error: Error) => {
      assert.ok(error instanceof InfrastructureError)
      assert.match(error.message, /another operator has the Lease/)
      return true
    })
    assert.deepEqual(await names(), [])
    leads = true
    await made.apply(rateLimit())
    cluster.proxy.setFaults({ answers: [{ status: 429, share: 1, of: 'writes', retryAfterSeconds: 20 }] })
    const late = assert.rejects(made.apply(rateLimit({ env: { A: 'late' } })), InfrastructureError)
    await pause(100)
    leads = false
    await made.standDown()
    await late
    cluster.proxy.setFaults({})
    const before = writes()
    await edit('Deployment', { spec: { replicas: 7 } })
    leads = true
    await edit('Deployment', { spec: { replicas: 6 } })
    await idle(300)
    assert.equal(writes() - before, 0, 'the desired state of a former term may be outdated')
    await made.apply(rateLimit())
    assert.equal(replicasOf(await get('Deployment')), 2)
  })

  it('report a rejection with the object, its cause and a fix, and apply the other objects', async t => {
    const { infrastructure, names, namespace } = await cluster.openNamespace(t)
    const made = infrastructure({ shapeFor: () => podShape({ resources: { requests: { cpu: 'much' } } }) })
    await assert.rejects(made.apply(rateLimit({ autoscaling })), (error: Error) => {
      assert.ok(error instanceof InfrastructureError)
      assert.match(
        error.message,
        new RegExp(
          `^Deployment "tollway-ratelimit" of the namespace "${namespace}" cannot be applied: .*quantit`,
          's',
        ),
      )
      return true
    })
    assert.ok((await names()).includes('PodDisruptionBudget/tollway-ratelimit'))
    assert.ok((await names()).includes(autoscaler))
  })

  it('report a missing permission and a quota', async t => {
    const { infrastructure, namespace } = await cluster.openNamespace(t)
    const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles/${namespace}-workloads`
    const role = (await cluster.api.call('GET', roles)).body as {
      rules: { resources: string[]; verbs: string[] }[]
    }
    const others = role.rules.map(rule => {
      return { ...rule, resources: rule.resources.filter(name => name !== 'serviceaccounts') }
    })
    const verbs = ['get', 'list', 'watch', 'create', 'delete']
    const rules = [...others, { apiGroups: [''], resources: ['serviceaccounts'], verbs }]
    await cluster.api.call('PUT', roles, { ...role, rules })
    const quota = { metadata: { name: 'few' }, spec: { hard: { 'count/services': '0' } } }
    await cluster.api.call('POST', `/api/v1/namespaces/${namespace}/resourcequotas`, quota)
    const path = `/api/v1/namespaces/${namespace}/resourcequotas/few/status`
    await cluster.api.call('PUT', path, {
      ...quota,
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      status: { hard: quota.spec.hard, used: { 'count/services': '0' } },
    })
    const made = infrastructure()
    await waitFor('both rejections', async () => {
      const error = await made.apply(rateLimit()).catch((failure: Error) => failure)
      const message = error instanceof Error ? error.message : ''
      return (
        /ServiceAccount .* lacks the permission to patch serviceaccounts of the API group ""/.test(message) &&
        /Service .* exceeded quota: few.*; raise the quota of the namespace/.test(message)
      )
    })
  })

  it('report their progress', async t => {
    const { infrastructure, startController } = await cluster.openNamespace(t)
    const made = infrastructure()
    assert.equal(made.progress('ratelimit'), undefined)
    await made.apply(rateLimit())
    await waitFor('the Deployment to be seen', () => made.progress('ratelimit') !== undefined)
    const message = 'its controller has not observed it yet'
    assert.deepEqual(made.progress('ratelimit'), { wanted: 2, updated: 0, ready: 0, earlier: 0, message })
    startController()
    const done = { wanted: 2, updated: 2, ready: 2, earlier: 0, message: '' }
    await waitFor('all to be there', () => isEqual(made.progress('ratelimit'), done))
    await made.apply(rateLimit({ env: { A: 'changed' } }))
    await waitFor('the change to begin', () => !isEqual(made.progress('ratelimit'), done))
    await waitFor('the change to be over', () => isEqual(made.progress('ratelimit'), done))
  })
})

type NamespaceEdit = Awaited<ReturnType<ClusterUnderTest['openNamespace']>>['edit']

/** Returns the content of an object that writers decide. */
function decided(object: KubeObject | undefined) {
  const { status: _status, metadata, ...rest } = object ?? assert.fail('it is not there')
  return { ...rest, labels: metadata.labels }
}

function replicasOf(object: KubeObject | undefined): unknown {
  return isObject(object?.['spec']) ? object['spec']['replicas'] : undefined
}

function isEqual(a: unknown, b: unknown): boolean {
  try {
    assert.deepEqual(a, b)
    return true
  } catch {
    return false
  }
}
