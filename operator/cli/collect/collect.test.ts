import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, test } from 'node:test'
import { missingKubeAssets } from '../../../test/support/kube-api-server.ts'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { manifest } from '../../../test/support/tollway.ts'
import { runKubectlTollway } from '../kubectl/run-kubectl-tollway.ts'
import { openTestCluster, systemNamespace, type TestCluster } from '../kubectl/testing/open-test-cluster.ts'
import { runTollway } from '../tollway-program.ts'
import { Bundle, type BundleManifest } from './bundle.ts'
import { redactText } from './redact.ts'

const canary = 'canary-5f1c9e'
const place = temporaryFolder('collect')
let bundles = 0

async function collect(run: typeof runTollway, ...args: string[]) {
  bundles += 1
  const file = join(place, `bundle-${bundles}.tar.gz`)
  const result = await runCaptured(output => run(['collect', '--output-file', file, ...args], output))
  return { file, ...result }
}

function unpack(file: string) {
  const folder = temporaryFolder('bundle')
  const { status, stderr } = spawnSync('tar', ['-xzf', file, '-C', folder], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  const top = join(folder, 'tollway-bundle')
  const paths = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(path =>
    statSync(join(top, path)).isFile(),
  )
  const files = new Map(paths.map(path => [path, readFileSync(join(top, path), 'utf8')]))
  const manifest = JSON.parse(files.get('manifest.json') ?? '') as BundleManifest
  return { files, manifest }
}

function assertNoCanary(files: ReadonlyMap<string, string>) {
  for (const [path, text] of files)
    for (const form of [
      canary,
      Buffer.from(canary).toString('base64'),
      '4111111111111111',
      '4111 1111 1111 1111',
    ])
      assert.ok(!text.includes(form), `${path} has the canary ${form}`)
}

/** Each line has the canary in a place where a secret can be. */
const lines = [
  `connect: failed url=redis://user:${canary}@redis:6379/0`,
  `connect: failed url=rediss://:p/${canary}@redis`,
  `authorization: Bearer ${canary}`,
  `{"level":"warn","token":"${canary}","password": "a \\"${canary}"}`,
  `{"message":"{\\"clientSecret\\":\\"${canary}\\"}"}`,
  `{"message":"{\\"clientSecret\\":\\"a \\\\\\"${canary}\\"}"}`,
  `{"password":"cut off ${canary}`,
  `REDIS_AUTH=${canary} next=1`,
  `db_password='a ${canary}' x`,
  `-----BEGIN EC PRIVATE KEY-----\n${canary}\n-----END EC PRIVATE KEY-----`,
  `whsec_${canary}`,
  'pan 4111 1111 1111 1111 and 4111111111111111',
]

test('redaction removes secrets from texts, and keeps other words', () => {
  for (const line of lines) assert.doesNotMatch(redactText(line), /canary|4111/, redactText(line))
  for (const line of [
    'secretName: kiosk',
    '{"automountServiceAccountToken":true}',
    'https://docs.example/a@b'.replace('@', '/'),
    'at 1767225600000 ms, order 4111111111111112',
    '{"tokenSecretRef":{"name":"kiosk","key":"token"}}',
  ])
    assert.equal(redactText(line), line)
})

test('redaction of a long line takes linear time', () => {
  const started = process.cpuUsage()
  redactText(`${'a.b-'.repeat(500_000)} ${'token'.repeat(200_000)}`)
  // Measures CPU time, because other processes may use the machine.
  assert.ok(process.cpuUsage(started).user < 5_000_000)
})

test('a bundle respects its limits, and keeps the newest lines', async () => {
  const bundle = new Bundle([], { maxFileBytes: 3000, maxBytes: 5000 })
  const log = Array.from({ length: 1000 }, (_, index) => `line ${index}\n`).join('')
  for (const path of ['a.log', 'b.log', 'c.log']) await bundle.addText(path, async () => log)
  await bundle.addText('d.log', async () => Promise.reject(new Error('it is not there')))
  const file = join(place, 'limited.tar.gz')
  await bundle.write(file, '2026-01-01T00:00:00Z')
  const { files, manifest: listed } = unpack(file)
  assert.ok(files.get('a.log')?.endsWith('line 999\n'))
  assert.match(files.get('a.log') ?? '', /^line \d+\n/)
  assert.ok(listed.files.reduce((total, { bytes }) => total + bytes, 0) <= 5000)
  assert.deepEqual(listed.leftOut, [
    { path: 'c.log', reason: 'the bundle has reached its limit of 5000 bytes' },
    { path: 'd.log', reason: 'it is not there' },
  ])
})

describe('tollway collect', () => {
  it('collects the state folder without secrets, also when the operator does not run', async () => {
    const stateDir = temporaryFolder('collect-state')
    const folder = temporaryFolder('collect-folder')
    const secret = `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {token: ${canary}}}`
    writeFileSync(join(folder, 'secret.yaml'), secret)
    writeFileSync(join(folder, 'a.yaml'), manifest('a', 'checkout', { user: '3/day' }))
    const report = { folder, pid: 2 ** 30, addresses: {}, resources: [], replicas: [], problems: [] }
    writeFileSync(
      join(stateDir, 'status.json'),
      JSON.stringify({ ...report, updatedAt: `x://u:${canary}@h` }),
    )
    writeFileSync(join(stateDir, 'tollway.log'), [...lines, `said ${canary} plainly`, 'last line'].join('\n'))
    writeFileSync(join(stateDir, 'redis-url'), `redis://:${canary}@redis\n`)
    mkdirSync(join(stateDir, 'secrets'))
    writeFileSync(
      join(stateDir, 'secrets', 'shop.a.json'),
      JSON.stringify({ stringData: { apiKey: canary } }),
    )
    const { code, file, out } = await collect(runTollway, '--state-dir', stateDir)
    assert.equal(code, 0)
    const { files, manifest: listed } = unpack(file)
    assertNoCanary(files)
    assert.match(files.get('resources.json') ?? '', /"checkout"/)
    assert.match(files.get('logs/tollway.log') ?? '', /said \(removed\) plainly\nlast line$/)
    assert.ok(listed.leftOut.some(({ path }) => path === 'operator/status.json'))
    assert.match(out, /left out operator\/status.json: the operator is not running/)
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  it('rejects a folder without a state', async () => {
    const { code, err } = await collect(runTollway, '--state-dir', '/missing')
    assert.equal(code, 2)
    assert.match(err, /no operator has run with the state in \/missing/)
  })
})

describe('kubectl tollway collect', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: TestCluster
  before(async () => {
    cluster = await openTestCluster()
    const annotations = {
      'kubectl.kubernetes.io/last-applied-configuration': `{"a":"${canary}"}`,
      note: canary,
    }
    const labels = { 'app.kubernetes.io/part-of': 'tollway', 'app.kubernetes.io/instance': 'tollway' }
    await cluster.put('/apis/tollway.dev/v1alpha1/namespaces/shop/ratelimitconfigs', {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'checkout', annotations },
      spec: { domain: 'checkout', descriptors: [{ key: 'user' }] },
    })
    const core = `/api/v1/namespaces/${systemNamespace}`
    await cluster.put(`${core}/secrets`, { metadata: { name: 'a', labels }, stringData: { a: canary } })
    const env = `{REDIS_AUTH: ${canary}, REDIS_URL: "redis://:${canary}@r", NEAR_LIMIT_RATIO: 0.9}`
    const settings = `logLevel: info\nrateLimit: {env: ${env}}\n`
    await cluster.put(`${core}/configmaps`, {
      metadata: { name: 'tollway-operator', labels, annotations },
      data: { 'operator.yaml': settings, mistake: canary },
    })
    const variables = [
      { name: 'A', value: canary },
      { name: 'REDIS_URL', value: `redis://:${canary}@redis` },
      { name: 'PORT', value: '8080' },
      { name: 'B', valueFrom: { secretKeyRef: { name: 'a', key: 'a' } } },
    ]
    const template = {
      metadata: { labels: { app: 'a' }, annotations },
      spec: {
        containers: [
          { name: 'a', image: `reg.example/a`, args: [`--url=redis://:${canary}@redis`], env: variables },
        ],
      },
    }
    await cluster.put(`/apis/apps/v1/namespaces/${systemNamespace}/deployments`, {
      metadata: { name: 'tollway-ratelimit', labels, annotations },
      spec: { selector: { matchLabels: { app: 'a' } }, template },
    })
    await cluster.put(`${core}/events`, {
      metadata: { name: 'tollway-ratelimit.1' },
      involvedObject: { kind: 'Deployment', namespace: systemNamespace, name: 'tollway-ratelimit' },
      message: `failed: redis://:${canary}@redis`,
    })
    const status = {
      resources: [],
      replicas: [],
      problems: [],
      note: [...lines, `said ${cluster.api.token}`].join('\n'),
    }
    await cluster.operatorPod('tollway-operator-1', {
      '/status': JSON.stringify(status),
      '/metrics': `a{url="redis://:${canary}@r"} 1\n`,
    })
  })
  after(() => cluster?.stop())

  it('collects the cluster without secrets, and names what it leaves out', async () => {
    const { code, file, out } = await collect(runKubectlTollway, '--kubeconfig', cluster.kubeconfig)
    assert.equal(code, 0)
    const { files, manifest: listed } = unpack(file)
    assertNoCanary(files)
    for (const text of files.values())
      assert.ok(!text.includes(cluster.api.token), 'the token of the kubeconfig')
    for (const path of [
      ...[
        'versions.json',
        'resources/ratelimitconfigs.json',
        'objects/deployments.json',
        'objects/events.json',
      ],
      ...['settings/tollway-operator.json', 'operators/tollway-operator-1/status.json'],
      ...['operators/tollway-operator-1/metrics.txt', 'operators/tollway-operator-1/problems.json'],
    ])
      assert.ok(files.has(path), path)
    assert.deepEqual(JSON.parse(files.get('settings/tollway-operator.json') ?? ''), {
      logLevel: 'info',
      rateLimit: { env: { REDIS_AUTH: '(removed)', REDIS_URL: '(removed)', NEAR_LIMIT_RATIO: 0.9 } },
    })
    assert.match(files.get('objects/deployments.json') ?? '', /"name": "PORT",\s+"value": "8080"/)
    assert.match(files.get('objects/events.json') ?? '', /redis:\/\/\(removed\)@redis/)
    assert.ok(![...files.keys()].some(path => path.includes('secrets')))
    const log = listed.leftOut.find(({ path }) => path === 'logs/tollway-operator-1/operator.log')
    assert.ok(log?.reason, JSON.stringify(listed.leftOut))
    assert.match(out, /left out logs\/tollway-operator-1\/operator.log: /)
  })

  it('collects what the account may read, and names the missing rights', async () => {
    const mayList = [{ apiGroups: ['tollway.dev'], resources: ['*'], verbs: ['list'] }]
    const kubeconfig = await cluster.account('reader', { shop: mayList })
    const { code, file } = await collect(runKubectlTollway, '--kubeconfig', kubeconfig, '-n', 'shop')
    assert.equal(code, 0)
    const { files, manifest: listed } = unpack(file)
    assertNoCanary(files)
    assert.match(files.get('resources/ratelimitconfigs.json') ?? '', /"checkout"/)
    const pods = listed.leftOut.find(({ path }) => path === 'pods')
    assert.match(pods?.reason ?? '', /lacks the right to list pods in all namespaces/)
  })

  it('collects the rest if an operator ends within an answer, and prints the reasons', async () => {
    const status = JSON.stringify({ resources: [], note: 'a'.repeat(500_000) })
    await cluster.operatorPod('tollway-operator-2', { '/status': status, '/metrics': '' }, '/status')
    const { code, file, out } = await collect(runKubectlTollway, '--kubeconfig', cluster.kubeconfig)
    assert.equal(code, 0)
    const { files } = unpack(file)
    assertNoCanary(files)
    assert.ok(files.has('operators/tollway-operator-1/status.json'))
    assert.ok(!files.has('operators/tollway-operator-2/status.json'))
    assert.match(
      out,
      /^left out operators\/tollway-operator-2\/status\.json: GET .*: the answer is incomplete: aborted$/m,
    )
    assert.match(out, /^left out operators\/tollway-operator-2\/metrics\.txt: GET .*connection refused/m)
  })
})

describe('kubectl tollway collect without Tollway', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: TestCluster
  before(async () => {
    cluster = await openTestCluster(false)
  })
  after(() => cluster?.stop())

  it('kubectl tollway collect exits with 1 in a cluster without Tollway', async () => {
    const { code, err } = await collect(runKubectlTollway, '--kubeconfig', cluster.kubeconfig)
    assert.equal(code, 1)
    assert.match(err, /found no operator of Tollway: .*, and the kinds of tollway.dev do not exist/)
  })
})
