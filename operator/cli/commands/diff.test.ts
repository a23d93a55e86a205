import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, test } from 'node:test'
import type { CommandOutput } from '@tollway/chassis/command-line/command.ts'
import { missingKubeAssets } from '../../../test/support/kube-api-server.ts'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { root } from '../../../test/support/tollway.ts'
import { compareValues } from '../compare-resources.ts'
import { runKubectlTollway } from '../kubectl/run-kubectl-tollway.ts'
import { openTestCluster, type TestCluster } from '../kubectl/testing/open-test-cluster.ts'
import { runTollway } from '../tollway-program.ts'

type Run = (args: readonly string[], output: CommandOutput) => Promise<number>

const capture = (run: Run, ...args: string[]) => runCaptured(output => run(args, output))

const place = temporaryFolder('diff')
const write = (name: string, ...documents: readonly string[]) => {
  writeFileSync(join(place, name), documents.join('---\n'))
  return join(place, name)
}
const limits = (name: string, spec: string) =>
  `{apiVersion: tollway.dev/v1alpha1, kind: RateLimitConfig, metadata: {name: ${name}, namespace: shop}, spec: ${spec}}\n`
const route = (name: string, spec: string) =>
  limits(name, spec).replace('RateLimitConfig', 'AnimationStreamRoute')

const user = (requests: number) => `{key: user, rateLimit: {unit: minute, requestsPerUnit: ${requests}}}`
const path = '{key: path, value: /pay, rateLimit: {unit: hour, requestsPerUnit: 100}}'
const checkout = limits('checkout', `{domain: checkout, descriptors: [${user(3)}, ${path}]}`)
const edited = limits(
  'checkout',
  `{domain: checkout, descriptors: [{key: ip, rateLimit: {unit: second, requestsPerUnit: 5}}, ${user(5)}]}`,
)
const search = limits('search', `{domain: search, descriptors: [${user(1)}]}`)
const thief = limits('thief', `{domain: checkout, descriptors: [${user(9)}]}`)
const kiosk = route('kiosk', '{match: {streamIdPrefix: kiosk-}, tokenSecretRef: {name: kiosk, key: token}}')

test('diff matches items of lists by their key, or else by their position', () => {
  const before = { list: [{ key: 'a', n: 1 }, { key: 'b' }], plain: [1, 2], old: null }
  const after = { list: [{ key: 'b' }, { key: 'a', n: 2 }], plain: [1, 3, 4] }
  assert.deepEqual(compareValues(before, after, 'spec'), [
    { path: 'spec.list[a].n', before: 1, after: 2 },
    { path: 'spec.plain[1]', before: 2, after: 3 },
    { path: 'spec.plain[2]', after: 4 },
    { path: 'spec.old', before: null },
  ])
})

const golden = readFileSync(join(root, 'docs/tasks/see-what-a-change-would-do.md'), 'utf8')

describe('tollway diff', () => {
  const stateDir = temporaryFolder('diff-state')
  const folder = temporaryFolder('diff-folder')
  writeFileSync(join(folder, 'a.yaml'), `${checkout}---\n${search}`)
  writeFileSync(join(stateDir, 'status.json'), JSON.stringify({ folder, pid: 0 }))
  const diff = (...args: string[]) => capture(runTollway, 'diff', '--state-dir', stateDir, ...args)

  it('prints nothing and exits with 0 for equal resources', async () => {
    assert.deepEqual(await diff('-f', write('same.yaml', checkout)), { code: 0, out: '', err: '' })
  })

  it('prints changed fields and rules, and exits with 1', async () => {
    const { code, out } = await diff('-f', write('edited.yaml', edited))
    assert.equal(code, 1)
    assert.equal(
      out,
      `\
~ RateLimitConfig shop/checkout changes
    spec.descriptors[user].rateLimit.requestsPerUnit: 3 -> 5
    spec.descriptors[path=/pay]: removed, was \
{"key":"path","value":"/pay","rateLimit":{"unit":"hour","requestsPerUnit":100}}
    spec.descriptors[ip]: added, {"key":"ip","rateLimit":{"unit":"second","requestsPerUnit":5}}

Rules:
  checkout.ip: added, 5/second
  checkout.path_/pay: removed, was 100/hour
  checkout.user: 3/minute -> 5/minute
`,
    )
  })

  it('counts resources as deleted only with --prune', async () => {
    const file = write('pruned.yaml', checkout)
    assert.equal((await diff('-f', file)).code, 0)
    const { code, out } = await diff('-f', file, '--prune')
    assert.equal(code, 1)
    assert.match(
      out,
      /^- RateLimitConfig shop\/search is deleted\n\nRules:\n {2}search.user: removed, was 1\/minute\n$/,
    )
  })

  it('prints JSON', async () => {
    const { out } = await diff('-f', write('edited.yaml', edited), '-o', 'json')
    const { resources, rules } = JSON.parse(out)
    assert.deepEqual(resources[0].change, 'change')
    assert.deepEqual(rules[1], { rule: 'checkout.path_/pay', before: '100/hour' })
  })

  it('prints the conflict over a domain, and the missing Secret', async () => {
    const { code, out } = await diff('-f', write('problems.yaml', thief, kiosk))
    assert.equal(code, 1)
    assert.match(out, /\+ RateLimitConfig shop\/thief is created/)
    assert.match(
      out,
      /Problems:\n.*RateLimitConfig shop\/thief: spec.domain: "checkout" belongs to shop\/checkout/,
    )
    assert.match(out, /warning: .*AnimationStreamRoute shop\/kiosk: .*Secret.*kiosk/)
  })

  for (const [args, message] of [
    [[], /missing option --file/],
    [['-f', '/missing'], /\/missing: no such file or folder/],
    [['-f', place, '--state-dir', '/missing'], /no operator has run with the state in \/missing/],
  ] as const)
    it(`tollway diff ${args.join(' ')} is rejected`, async () => {
      const { code, err } = await diff(...args)
      assert.equal(code, 2)
      assert.match(err, message)
    })
})

describe('kubectl tollway diff', { skip: missingKubeAssets(), timeout: 120_000 }, () => {
  let cluster: TestCluster
  let admin: readonly string[]
  const resources = '/apis/tollway.dev/v1alpha1/namespaces/shop/ratelimitconfigs'
  before(async () => {
    cluster = await openTestCluster()
    admin = ['--kubeconfig', cluster.kubeconfig]
    const rateLimit = (unit: string, requestsPerUnit: number) => ({ unit, requestsPerUnit })
    await cluster.put(resources, {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'checkout' },
      spec: {
        domain: 'checkout',
        descriptors: [
          { key: 'user', rateLimit: rateLimit('minute', 3) },
          { key: 'path', value: '/pay', rateLimit: rateLimit('hour', 100) },
        ],
      },
    })
  })
  after(() => cluster?.stop())

  it('compares with the resources of the cluster, and changes nothing', async () => {
    const same = await capture(runKubectlTollway, 'diff', '-f', write('same.yaml', checkout), ...admin)
    assert.deepEqual(same, { code: 0, out: '', err: '' })
    const { code, out } = await capture(runKubectlTollway, 'diff', '-f', write('e.yaml', edited), ...admin)
    assert.equal(code, 1)
    assert.ok(golden.includes(out), out)
    const { body } = await cluster.api.call('GET', `${resources}/checkout`)
    assert.equal((body as { spec: { descriptors: object[] } }).spec.descriptors.length, 2)
  })

  it('names a Secret that does not exist, and no Secret that exists', async () => {
    const file = write('kiosk.yaml', kiosk)
    const without = await capture(runKubectlTollway, 'diff', '-f', file, ...admin)
    assert.match(without.out, /Problems:\n.*AnimationStreamRoute shop\/kiosk: .*kiosk.*does not exist/)
    await cluster.put('/api/v1/namespaces/shop/secrets', {
      metadata: { name: 'kiosk' },
      stringData: { token: 'a' },
    })
    const withSecret = await capture(runKubectlTollway, 'diff', '-f', file, ...admin)
    assert.doesNotMatch(withSecret.out, /Problems/)
  })

  it('rejects what the API server rejects', async () => {
    const wrong = write('wrong.yaml', checkout.replace('minute', 'fortnight'))
    const { code, err } = await capture(runKubectlTollway, 'diff', '-f', wrong, ...admin)
    assert.equal(code, 2)
    assert.match(err, /422 Invalid: .*unit/)
  })

  it('compares without defaults for an account that may only read', async () => {
    const mayRead = [{ apiGroups: ['tollway.dev'], resources: ['*'], verbs: ['get', 'list'] }]
    const kubeconfig = await cluster.account('reader', { shop: mayRead })
    const args = ['diff', '-f', write('e.yaml', edited), '-n', 'shop', '--kubeconfig', kubeconfig]
    const { code, out, err } = await capture(runKubectlTollway, ...args)
    assert.equal(code, 1)
    assert.match(out, /checkout.user: 3\/minute -> 5\/minute/)
    assert.match(err, /compared without the defaults .*lacks the right to update ratelimitconfigs/)
  })
})
