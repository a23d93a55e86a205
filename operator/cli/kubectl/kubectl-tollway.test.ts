import assert from 'node:assert/strict'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { version } from '@tollway/chassis/version.ts'
import { missingKubeAssets } from '../../../test/support/kube-api-server.ts'
import { startProgram } from '../../../test/support/program.ts'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { root } from '../../../test/support/tollway.ts'
import { runKubectlTollway } from './run-kubectl-tollway.ts'
import { openTestCluster, systemNamespace, type TestCluster } from './testing/open-test-cluster.ts'

/** The documentation page, which shows the output of the tested commands. */
const page = readFileSync(join(root, 'docs/tasks/inspect-a-cluster.md'), 'utf8')

const limits = '/apis/tollway.dev/v1alpha1/namespaces/shop/ratelimitconfigs'
const rateLimit = { unit: 'minute', requestsPerUnit: 3 }
const checkout = {
  apiVersion: 'tollway.dev/v1alpha1',
  kind: 'RateLimitConfig',
  metadata: { name: 'checkout' },
  spec: { domain: 'checkout', descriptors: [{ key: 'user', rateLimit }] },
}
const conditions = ['Accepted', 'Programmed', 'Ready'].map(type => ({
  type,
  status: 'True',
  reason: 'Valid',
  message: '',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
}))
/** The report on the page of an operator, which has no names of resources. */
const report = {
  version: '9.8.7',
  resources: [
    { kind: 'RateLimitConfig', namespace: '', name: '', resources: 2, conditions, counts: {}, problems: [] },
  ],
  replicas: [{ name: 'ratelimit-0', uid: 'a', ready: true, reason: '', restarts: 0, addresses: {} }],
  problems: [],
}

const run = (...args: string[]) => runCaptured(output => runKubectlTollway(args, output))

describe('kubectl tollway', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: TestCluster
  let admin: readonly string[]
  let reader: readonly string[]

  before(async () => {
    cluster = await openTestCluster()
    await cluster.put(limits, checkout)
    const status = { observedGeneration: 1, enforced: '1/1', rules: 1, conditions }
    const { apiVersion, kind, metadata } = checkout
    const object = { apiVersion, kind, metadata, status }
    const path = `${limits}/checkout/status?fieldManager=test`
    assert.equal((await cluster.api.call('PATCH', path, object)).status, 200)
    await cluster.operatorPod('tollway-operator-1', { '/status': JSON.stringify(report) })
    admin = ['--kubeconfig', cluster.kubeconfig]
    const mayList = [{ apiGroups: ['tollway.dev'], resources: ['*'], verbs: ['list'] }]
    reader = ['--kubeconfig', await cluster.account('reader', { shop: mayList })]
  })
  after(() => cluster?.stop())

  it('status prints the report of the operator, through the API server', async () => {
    const { code, out, err } = await run('status', ...admin, '-n', 'shop')
    assert.equal(err, '')
    assert.equal(code, 0)
    assert.match(out, /RateLimitConfig +shop\/checkout +checkout .* 1\/1 +True/)
    assert.ok(page.includes(out), out)
  })

  it('status names the resources that the account may list, and a missing right to list them', async () => {
    const pages = [
      { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
      { apiGroups: [''], resources: ['pods/proxy'], verbs: ['get'] },
    ]
    const mayList = [{ apiGroups: ['tollway.dev'], resources: ['*'], verbs: ['list'] }]
    const inTollway = ['--tollway-namespace', systemNamespace]
    const tenant = await cluster.account('tenant', { [systemNamespace]: pages, shop: mayList })
    const ofShop = await run('status', '--kubeconfig', tenant, ...inTollway, '-n', 'shop')
    assert.deepEqual([ofShop.code, ofShop.err], [0, ''])
    assert.match(ofShop.out, /shop\/checkout/)
    const ofAll = await run('status', '--kubeconfig', tenant, ...inTollway)
    assert.equal(ofAll.code, 2)
    assert.match(ofAll.err, /tenant lacks the right to list ratelimitconfigs\.tollway\.dev in all/)
  })

  it('try and validate read the resources of the cluster', async () => {
    const tried = await run('try', ...admin, '-d', 'checkout', '-e', 'user=alice')
    assert.deepEqual([tried.code, tried.err], [0, ''])
    assert.match(tried.out, /=> checkout.user: 3\/minute\n/)
    assert.ok(page.includes(tried.out), tried.out)
    const validated = await run('validate', ...admin)
    assert.deepEqual(validated, { code: 0, out: '1 resource, no problem\n', err: '' })
  })

  it('version prints the versions of the command, the operators, the pods and the definitions', async () => {
    const labels = {
      'app.kubernetes.io/name': 'ratelimit',
      'app.kubernetes.io/part-of': 'tollway',
      'app.kubernetes.io/component': 'ratelimit',
    }
    const containers = [{ name: 'ratelimit', image: 'registry.test:5000/tollway/ratelimit:0.1.0@sha256:abc' }]
    const pod = { metadata: { name: 'tollway-ratelimit-1', labels }, spec: { containers } }
    await cluster.put(`/api/v1/namespaces/${systemNamespace}/pods`, pod)
    const { code, out, err } = await run('version', ...admin)
    assert.deepEqual([code, err], [0, ''])
    for (const row of [
      new RegExp(`^client +node ${process.version} +${version}$`, 'm'),
      /^operator +tollway-operator-1 +9\.8\.7 +tollway$/m,
      /^service +tollway-ratelimit-1 +0\.1\.0 +registry\.test:5000\/tollway\/ratelimit:0\.1\.0@sha256:abc$/m,
      /^definition +ratelimitconfigs\.tollway\.dev +unknown$/m,
    ])
      assert.match(out, row)
    const json = JSON.parse((await run('version', ...admin, '-o', 'json')).out)
    assert.deepEqual(Object.keys(json), ['client', 'operators', 'services', 'definitions'])
    assert.equal(json.definitions.length, 3)
  })

  it('version prints what the account may read, and the rights that it lacks', async () => {
    const { code, out, err } = await run('version', ...reader)
    assert.equal(code, 1)
    assert.match(out, new RegExp(`^client .* ${version}$`, 'm'))
    assert.match(err, /lacks the right to list pods in all namespaces/)
    assert.match(err, /lacks the right to get customresourcedefinitions\.apiextensions\.k8s\.io/)
  })

  it('try and validate read one namespace for an account that may only list that namespace', async () => {
    const { code, out } = await run('validate', ...reader, '-n', 'shop')
    assert.deepEqual([code, out], [0, '1 resource, no problem\n'])
  })

  const user = `system:serviceaccount:${systemNamespace}:reader`
  for (const [args, right] of [
    [
      ['validate'],
      `${user} lacks the right to list ratelimitconfigs.tollway.dev in all namespaces; for one namespace use -n NAMESPACE`,
    ],
    [
      ['status'],
      `${user} lacks the right to list pods in all namespaces; for one namespace use --tollway-namespace NAME`,
    ],
    [
      ['status', '--tollway-namespace', systemNamespace],
      `${user} lacks the right to list pods in the namespace ${systemNamespace}`,
    ],
    [['streams', 'list'], `${user} lacks the right to list pods in all namespaces`],
    [['try', '-d', 'a', '-e', 'b=c', '--as', 'bob'], `${user} lacks the right to impersonate`],
  ] as const)
    it(`${args.join(' ')} names the missing right`, async () => {
      const { code, err } = await run(...args, ...reader)
      assert.equal(code, 2)
      assert.ok(err.includes(right), err)
    })

  it('status names the page that the account may not get', async () => {
    const mayList = [{ apiGroups: [''], resources: ['pods'], verbs: ['list'] }]
    const kubeconfig = await cluster.account('lister', { [systemNamespace]: mayList })
    const { code, err } = await run(
      ...['status', '--kubeconfig', kubeconfig, '--tollway-namespace', systemNamespace],
    )
    assert.equal(code, 2)
    assert.match(err, /lister lacks the right to get pods\/proxy in the namespace tollway-system/)
  })

  it('counters names the rights that kubectl needs to forward a port', async () => {
    for (const [name, verbs, right] of [
      ['neighbour', ['list'], 'get pods'],
      ['visitor', ['list', 'get'], 'create pods/portforward'],
    ] as const) {
      const rules = [{ apiGroups: [''], resources: ['pods'], verbs }]
      const kubeconfig = await cluster.account(name, { [systemNamespace]: rules })
      const { code, err } = await run(
        ...['counters', 'get', '--kubeconfig', kubeconfig, '--tollway-namespace', systemNamespace],
        ...['-d', 'checkout', '-e', 'user=alice'],
      )
      assert.equal(code, 2)
      const lacked = `${name} lacks the right to ${right} in the namespace ${systemNamespace}`
      assert.ok(err.includes(`${systemNamespace}:${lacked}`), err)
    }
  })

  it("status repeats kubectl's error if it cannot forward the port", async () => {
    const result = await run('counters', 'get', ...admin, '-d', 'checkout', '-e', 'user=alice')
    assert.equal(result.code, 2)
    assert.match(result.err, /kubectl tollway counters: kubectl port-forward: .*pod/)
  })

  it('rejects a file with two tokens, and prints neither', async () => {
    const file = join(temporaryFolder('tokens'), 'tokens')
    writeFileSync(file, 'canary-1\ncanary-2\n')
    const { code, err } = await run('counters', 'get', ...admin, '-d', 'd', '-e', 'k=v', '--token-file', file)
    assert.equal(code, 2)
    assert.match(err, /--token-file .*: the file must contain exactly one token\n/)
    assert.doesNotMatch(err, /canary/)
  })

  it('runs and completes its commands through kubectl', async () => {
    const bin = temporaryFolder('kubectl-plugin')
    for (const name of ['kubectl-tollway', 'kubectl_complete-tollway']) {
      const script = `#!/bin/sh\nexec "${process.execPath}" "${join(root, `operator/bin/${name}.js`)}" "$@"\n`
      writeFileSync(join(bin, name), script)
      chmodSync(join(bin, name), 0o755)
    }
    const assets = process.env['KUBE_ASSETS'] ?? ''
    const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` }
    const kubectl = async (...args: string[]) => {
      const program = startProgram(join(assets, 'kubectl'), args, { env })
      await program.exited()
      return program.output()
    }
    assert.match(await kubectl('tollway', 'validate', ...admin), /1 resource, no problem/)
    assert.match(await kubectl('__complete', 'tollway', 'val'), /^validate\t.*\n:4\n/m)
    assert.match(await kubectl('__complete', 'tollway', 'status', '--out'), /^--output\t.*\n:4\n/m)
  })
})

describe('kubectl tollway without Tollway', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: TestCluster
  before(async () => {
    cluster = await openTestCluster(false)
  })
  after(() => cluster?.stop())

  it('reports that the cluster has no Tollway', async () => {
    const admin = ['--kubeconfig', cluster.kubeconfig]
    const validated = await run('validate', ...admin)
    assert.equal(validated.code, 2)
    assert.match(
      validated.err,
      /Tollway is not installed in this cluster: the kind \w+ \(\w+\.tollway\.dev\) does not exist/,
    )
    const status = await run('status', ...admin)
    assert.equal(status.code, 2)
    assert.match(status.err, /found no operator of Tollway: no namespace has a pod with the label/)
  })
})
