import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiVersion } from '../../crds/resource-kind.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Account, makeAccount, type Rule } from './accounts.ts'
import { apply, eventually, isReady, kubectl, pods } from './cluster.ts'
import { startTollway, tollway } from './kubectl-plugin.ts'
import { formatAddress, readyBrokers } from './ready-brokers.ts'
import { ensureInstalled, system } from './release.ts'
import { pushRequest } from './streams-load.ts'
import { canaryOfSidecar, unpackBundle } from './support-bundle.ts'

const namespace = 'inspected'
const operators = 'app.kubernetes.io/name=tollway-operator'
const secretWord = 'canary-of-a-token'
const place = temporaryFolder('kubectl-tollway')
/** A user who has made no call in an earlier run. */
const caller = `bob-${process.pid}`

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

const ofTollway = ['ratelimitconfigs', 'animationstreamroutes', 'merchants']
const resourceReader: Rule = { group: 'tollway.dev', resources: ofTollway, verbs: ['list'] }
const podLister: Rule = { group: '', resources: ['pods'], verbs: ['list'] }
const podReader: Rule = { group: '', resources: ['pods'], verbs: ['list', 'get'] }
const creatorOf = (subresource: string): Rule => ({
  group: '',
  resources: [`pods/${subresource}`],
  verbs: ['create'],
})
const counterEditor: Rule = {
  group: 'tollway.dev',
  resources: ['ratelimitconfigs/counters'],
  verbs: ['get', 'update'],
}
const withTollway = ['--tollway-namespace', system]

describe('kubectl tollway in a cluster', { skip, timeout: 600_000 }, () => {
  /** An account for each command, with the rights of docs/tasks/inspect-a-cluster.md and no others. */
  let reader: Account
  let watcher: Account
  let counter: Account
  let streamer: Account
  let payer: Account

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await apply({ apiVersion: 'v1', kind: 'List', items: [secretGrant, tokens, limits(3), route, merchant] })
    const all = ['rlc/inspected', 'asr/inspected', 'mer/inspected']
    const made = await Promise.all([
      makeAccount(namespace, 'reader', { [namespace]: [resourceReader] }),
      makeAccount(namespace, 'watcher', {
        [system]: [podLister, { group: '', resources: ['pods/proxy'], verbs: ['get'] }],
        [namespace]: [resourceReader],
      }),
      makeAccount(namespace, 'counter', {
        [system]: [podReader, creatorOf('portforward')],
        [namespace]: [counterEditor],
      }),
      makeAccount(namespace, 'streamer', { [system]: [podReader, creatorOf('portforward')] }),
      makeAccount(namespace, 'payer', { [system]: [podReader, creatorOf('exec')] }),
      kubectl('-n', namespace, 'wait', '--for=condition=Ready', ...all, '--timeout=120s'),
    ])
    ;[reader, watcher, counter, streamer, payer] = made
  })
  after(async () => {
    await kubectl('delete', 'namespace', namespace, '--wait=false')
    for (const kind of ['roles', 'rolebindings'])
      await kubectl('-n', system, 'delete', kind, ...accountsOfSystem.map(name => `test-${name}`))
  })

  it('status shows the resources and the processes', async () => {
    const { code, out, error } = await tollway(
      ['status', '-n', namespace, ...withTollway],
      watcher.kubeconfig,
    )
    assert.equal(error, '')
    assert.equal(code, 0)
    assert.match(out, /^RateLimitConfig +inspected\/inspected +inspected +1 +True +True +3\/3 +True$/m)
    assert.match(out, /^AnimationStreamRoute +inspected\/inspected /m)
    assert.match(out, /^Merchant +inspected\/inspected /m)
    assert.equal(out.match(/^tollway-(ratelimit|broker|payments)-\S+ +ready +0/gm)?.length, 7, out)
  })

  it('validate finds no problem in the cluster, and those of a file', async () => {
    const ofCluster = await tollway(['validate', '-n', namespace], reader.kubeconfig)
    // It reads no Secret, so those of the route count as missing.
    assert.match(ofCluster.out, /warning: .*the Secret inspected\/inspected-tokens does not exist/)
    const file = manifestFile(limits(-1))
    const ofFile = await tollway(['validate', '-f', file], reader.kubeconfig)
    assert.equal(ofFile.code, 1)
    assert.match(ofFile.out, /requestsPerUnit/)
  })

  it('try finds the rule of a request', async () => {
    const { code, out } = await tollway(['try', '-n', namespace, ...entriesOf('alice')], reader.kubeconfig)
    assert.equal(code, 0)
    assert.match(out, /=> inspected\.user: 3\/hour\n/)
  })

  it('diff shows the fields and rules that a file would change, and stores nothing', async () => {
    const same = await tollway(['diff', '-n', namespace, '-f', manifestFile(limits(3))])
    assert.deepEqual([same.code, same.error], [0, ''])
    const { code, out } = await tollway(['diff', '-n', namespace, '-f', manifestFile(limits(7))])
    assert.equal(code, 1)
    assert.match(out, /requestsPerUnit.*3.*7/)
    const generation = ['-o', 'jsonpath={.metadata.generation}']
    assert.equal(await kubectl('-n', namespace, 'get', 'rlc/inspected', ...generation), '1')
    // An account without the right to a dry run compares the manifests as they are.
    const restricted = await tollway(
      ['diff', '-n', namespace, '-f', manifestFile(limits(7))],
      reader.kubeconfig,
    )
    assert.equal(restricted.code, 1)
    assert.match(restricted.error, /without the defaults of the API server: .*:reader lacks the right to/)
  })

  it('counters reads, raises and resets the counters of real calls', async () => {
    const of = (...args: readonly string[]) =>
      tollway(['counters', ...args, ...entriesOf(caller), ...withTollway], counter.kubeconfig)
    assert.deepEqual([await call(caller), await call(caller), await call(caller)], [200, 200, 200])
    const got = await of('get')
    assert.equal(got.code, 0, got.error)
    assert.match(got.out, /^inspected\.user +3 +3 +0 /m)
    const raised = await of('raise', '--by', '2')
    assert.equal(raised.code, 0, raised.error)
    assert.deepEqual([await call(caller), await call(caller), await call(caller)], [200, 200, 429])
    const reset = await of('reset')
    assert.equal(reset.code, 0, reset.error)
    assert.equal(await call(caller), 200)
  })

  it('whatif shows what a lower limit would have rejected', async () => {
    const file = manifestFile(limits(1))
    const run = () => tollway(['whatif', '-f', file, ...withTollway], counter.kubeconfig)
    const { code, out, error } = await run()
    assert.equal(code, 0, error)
    assert.match(out, new RegExp(`^user=${caller} +\\d+ +\\d+ +[1-9]\\d*$`, 'm'))
    assert.match(out, /^Based on \d+ of \d+ calls since .*, recorded by 3 pods\./m)
  })

  it('streams lists and interrupts a request', async () => {
    const [broker] = await readyBrokers(system)
    assert.ok(broker)
    const pushed = pushRequest(async () => formatAddress(broker), 'inspected', 3_000)
    const run = (...args: readonly string[]) =>
      tollway(['streams', ...args, ...withTollway], streamer.kubeconfig)
    await eventually('the request', async () => / inspected /.test((await run('list')).out))
    const interrupted = await run('interrupt', 's', 'inspected')
    assert.deepEqual([interrupted.code, interrupted.error], [0, ''])
    assert.match(interrupted.out, /1 running request was interrupted/)
    assert.equal(await pushed, 'INFO')
  })

  it('payments runs in the container of the service, beside a sidecar', async () => {
    const verified = await tollway(['payments', 'verify', ...withTollway], payer.kubeconfig)
    assert.equal(verified.code, 0, verified.error)
    assert.match(verified.out, /\nEverything adds up\.\n/)
    const wrong = await tollway(['payments', 'exception', 'retry', 'none', ...withTollway], payer.kubeconfig)
    assert.equal(wrong.code, 1)
    assert.match(wrong.error, /^tollway payments: rejected: No open exception has this id\.$/m)
  })

  it('commands of an account that lacks a right name the right', async () => {
    const inSystem = `in the namespace ${system}`
    const cases = [
      [['status', ...withTollway], reader, `list pods ${inSystem}`],
      [['status', ...withTollway], payer, `get pods/proxy ${inSystem}`],
      [
        ['validate', '-n', namespace],
        payer,
        `list ratelimitconfigs.tollway.dev in the namespace ${namespace}`,
      ],
      [
        ['counters', 'get', ...entriesOf(caller), ...withTollway],
        payer,
        `create pods/portforward ${inSystem}`,
      ],
      [['counters', 'get', ...entriesOf(caller), ...withTollway], streamer, 'get ratelimitconfigs/counters'],
      [['streams', 'list', ...withTollway], payer, `create pods/portforward ${inSystem}`],
      [['payments', 'verify', ...withTollway], streamer, `create pods/exec ${inSystem}`],
    ] as const
    const answers = cases.map(([args, { kubeconfig }]) => tollway(args, kubeconfig))
    for (const [index, [args, { user }, right]] of cases.entries()) {
      const { code, error } = (await answers[index]) ?? {}
      assert.equal(code, 2, `${args.join(' ')}: ${error}`)
      assert.ok(error?.includes(right) && error.includes(user), error)
    }
  })

  it('commands skip an operator without a server, and name it if there is no other one', async t => {
    // Its name is the first one of the list.
    await apply(idlePod('aaa-idle', system, { 'app.kubernetes.io/name': 'tollway-operator' }))
    await apply(idlePod('aaa-idle', namespace, { 'app.kubernetes.io/name': 'tollway-operator' }))
    t.after(async () => {
      for (const each of [system, namespace]) await kubectl('-n', each, 'delete', 'pod', 'aaa-idle')
    })
    for (const each of [system, namespace])
      await kubectl('-n', each, 'wait', '--for=condition=Ready', 'pod/aaa-idle', '--timeout=90s')
    const first = (await pods(system, operators)).map(({ metadata }) => metadata.name)[0]
    assert.equal(first, 'aaa-idle')
    const of = (tollwayNamespace: string) => [
      ...['counters', 'get', ...entriesOf(caller), '--tollway-namespace', tollwayNamespace],
      ...['--token-file', tokenFile(counter)],
    ]
    const { code, error } = await tollway(of(system))
    assert.equal(code, 0, error)
    const status = await tollway(['status', '-n', namespace, ...withTollway])
    assert.equal(status.code, 0, status.error)
    const alone = await tollway(of(namespace))
    assert.equal(alone.code, 2)
    assert.match(alone.error, /pod inspected\/aaa-idle: no server answers on port 8000: /)
  })

  it('a command that a signal ends leaves no kubectl behind', async () => {
    const args = ['streams', 'watch', '--every', '0.2', ...withTollway]
    const { process: watching, ended } = startTollway(args, streamer.kubeconfig)
    const forwards = () => childrenOf(watching.pid ?? 0).filter(({ text }) => text.includes('port-forward'))
    await eventually('the forwarded ports', async () => forwards().length === 2)
    const started = forwards()
    watching.kill('SIGTERM')
    await ended
    await eventually('their end', async () => started.every(({ pid }) => hasEnded(pid)))
  })

  describe('collect', () => {
    it('writes a bundle of bounded size without the secrets of the cluster', async () => {
      const file = join(place, 'bundle.tar.gz')
      const { code, out, error } = await tollway(['collect', '--output-file', file])
      assert.equal(code, 0, error)
      assert.match(out, /: \d+ files\n/)
      assert.equal(statSync(file).mode & 0o777, 0o600)
      const { files, manifest } = unpackBundle(file)
      const sum = manifest.files.reduce((total, { bytes }) => total + bytes, 0)
      assert.ok(sum <= manifest.limits.maxBytes, `${sum} bytes`)
      const paths = [...files.keys()]
      const sidecar = manifest.files.find(({ path }) =>
        /^logs\/tollway-payments-.*\/sidecar\.log$/.test(path),
      )
      const { bytes = 0, cutBytes = 0 } = sidecar ?? {}
      assert.ok(bytes <= manifest.limits.maxFileBytes && cutBytes > 0, JSON.stringify(manifest))
      for (const pattern of [
        ...[/^versions\.json$/, /^resources\/merchants\.json$/, /^objects\/deployments\.json$/],
        ...[/^operators\/tollway-operator-.*\/status\.json$/, /^certificates\/tollway-feed/],
        ...['operator', 'ratelimit', 'broker', 'payments'].map(name => new RegExp(`^logs/tollway-${name}-`)),
      ])
        assert.ok(
          paths.some(path => pattern.test(path)),
          `${pattern}: ${paths.join(' ')}`,
        )
      await assertNoSecret(files)
    })

    it('has what a restricted account may read, and names the rights that it lacks', async () => {
      const file = join(place, 'restricted.tar.gz')
      const args = ['collect', '--output-file', file, '-n', namespace, ...withTollway]
      const { code, out } = await tollway(args, reader.kubeconfig)
      assert.equal(code, 0)
      assert.match(out, new RegExp(`^left out pods: ${reader.user} lacks the right to list pods in`, 'm'))
      const { files } = unpackBundle(file)
      assert.match(files.get('resources/ratelimitconfigs.json') ?? '', /"inspected"/)
      await assertNoSecret(files)
    })

    it('ends whole when an operator is killed in the middle of it', async () => {
      const file = join(place, 'killed.tar.gz')
      const victim = (await pods(system, operators)).find(isReady)
      assert.ok(victim)
      const { name } = victim.metadata
      const collecting = tollway(['collect', '--output-file', file])
      await kubectl('-n', system, 'delete', 'pod', name, '--grace-period=0', '--force')
      const { code, error } = await collecting
      assert.equal(code, 0, error)
      const { files, manifest } = unpackBundle(file)
      const parts = [...manifest.files, ...manifest.leftOut].map(({ path }) => path)
      const others = (await pods(system, operators)).filter(({ metadata }) => metadata.name !== name)
      // The pods that were there at its beginning are in it, or the reason why they are not.
      for (const part of ['status.json', 'metrics.txt'])
        assert.ok(
          parts.some(path => path.startsWith('operators/') && path.endsWith(part)),
          parts.join(' '),
        )
      assert.ok(others.length > 0)
      await assertNoSecret(files)
      await eventually(
        'two operators',
        async () => (await pods(system, operators)).filter(isReady).length === 2,
      )
    })
  })

  /** No file has a secret, as it is or in base64. */
  async function assertNoSecret(files: ReadonlyMap<string, string>): Promise<void> {
    const secrets = [...(await secretsOf(system)), ...(await secretsOf(namespace))]
    const words = [secretWord, canaryOfSidecar, 'of-the-tests', ...secrets, reader.token, counter.token]
    assert.ok(secrets.length > 5, `${secrets.length} secrets`)
    for (const [path, text] of files)
      for (const word of words)
        for (const form of [word, Buffer.from(word).toString('base64')])
          assert.ok(!text.includes(form), `${path} has the secret that begins with ${form.slice(0, 12)}`)
  }

  async function call(user: string): Promise<number> {
    const [pod] = (await pods(system, 'app.kubernetes.io/name=ratelimit')).filter(isReady)
    const body = JSON.stringify({
      domain: namespace,
      descriptors: [{ entries: [{ key: 'user', value: user }] }],
    })
    const answer = await fetch(`http://${pod?.status.podIP}:8080/json`, { method: 'POST', body })
    await answer.arrayBuffer()
    return answer.status
  }
})

/** The processes that a process has started. kubectl replaces itself with its plugin. */
function childrenOf(parent: number): readonly { readonly pid: string; readonly text: string }[] {
  const text = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', `${parent}`], { encoding: 'utf8' })
  return text
    .trim()
    .split('\n')
    .map(line => ({ pid: /^ *(\d+)/.exec(line)?.[1] ?? '', text: line }))
}

/** An orphaned process is a zombie until the first process of the machine reaps it. */
const hasEnded = (pid: string) =>
  !existsSync(`/proc/${pid}`) || /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))

const accountsOfSystem = ['watcher', 'counter', 'streamer', 'payer']
const entriesOf = (user: string) => ['-d', namespace, '-e', `user=${user}`]

interface Secret {
  readonly type: string
  readonly data?: Readonly<Record<string, string>>
}

/** The values of all Secrets in a namespace that are no public part of a certificate. */
async function secretsOf(place: string): Promise<readonly string[]> {
  const text = await kubectl('-n', place, 'get', 'secrets', '-o', 'json')
  const { items } = JSON.parse(text) as { readonly items: readonly Secret[] }
  return items
    .filter(({ type }) => !type.startsWith('helm.sh/'))
    .flatMap(({ data = {} }) => Object.entries(data))
    .filter(([name]) => !publicEntries.test(name))
    .flatMap(([, value]) => Buffer.from(value, 'base64').toString().split('\n'))
    .map(line => line.trim())
    .filter(line => line.length > 12 && !/^-----/.test(line) && !/^(https?|redis):\/\/[^@]*$/.test(line))
}

const publicEntries = /\.crt$|^(trusted-since|merchantId|publicKey|baseUrl|payPageUrl|appId)$/

let manifestFiles = 0

function manifestFile(resource: object): string {
  const file = join(place, `manifest-${++manifestFiles}.yaml`)
  writeFileSync(file, JSON.stringify(resource))
  return file
}

function tokenFile({ token }: Account): string {
  const file = join(place, 'token')
  writeFileSync(file, token, { mode: 0o600 })
  return file
}

const inNamespace = { name: 'inspected', namespace }

function limits(requestsPerUnit: number) {
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { ...inNamespace, annotations: { note: secretWord } },
    spec: {
      domain: namespace,
      descriptors: [{ key: 'user', rateLimit: { unit: 'hour', requestsPerUnit } }],
    },
  }
}

const route = {
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata: inNamespace,
  spec: {
    match: { streamIdPrefix: 'inspected-' },
    pushTokenSecretRef: { name: 'inspected-tokens', key: 'push' },
  },
}

const tokens = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'inspected-tokens', namespace },
  stringData: { push: secretWord },
}

/** Lets the operator use the Secrets of the namespace. */
const secretGrant = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  metadata: { name: `${system}-tollway-operator`, namespace },
  roleRef: {
    apiGroup: 'rbac.authorization.k8s.io',
    kind: 'ClusterRole',
    name: `${system}-tollway-secrets`,
  },
  subjects: [{ kind: 'ServiceAccount', name: 'tollway-operator', namespace: system }],
}

const merchant = {
  apiVersion,
  kind: 'Merchant',
  metadata: inNamespace,
  spec: {
    currency: 'DKK',
    email: 'inspected@example.org',
    website: 'https://inspected.example.org',
    descriptor: 'INSPECTED',
    company: { country: 'DK' },
  },
}

/** A ready pod in which nothing listens. */
function idlePod(name: string, place: string, labels: Readonly<Record<string, string>>): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: place, labels },
    spec: {
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'idle',
          image: 'tollway/operator:dev',
          imagePullPolicy: 'Never',
          command: ['node', '--eval', 'setInterval(() => {}, 1_000_000)'],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  }
}
