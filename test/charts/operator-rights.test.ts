import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { systemClock } from '@tollway/chassis/clock.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { KubeApiAccess } from '../../operator/environments/kubernetes/api/access.ts'
import { createKubeClient } from '../../operator/environments/kubernetes/api/client.ts'
import { createGrantedSecrets } from '../../operator/environments/kubernetes/tenant-secrets/granted-secrets.ts'
import { PolledSecrets } from '../../operator/environments/kubernetes/tenant-secrets/polled-secrets.ts'
import { createReadRateLimiter } from '../../operator/environments/kubernetes/tenant-secrets/read-rate-limiter.ts'
import { addressOf } from '../../operator/environments/kubernetes/testing/service-account.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { chart, helm, missingHelm, namespace, release, render } from './helm.ts'
import { installRights, tokenFor } from './operator-account.ts'

const skip = missingHelm() || missingKubeAssets()
const values = ['redis.bundled.enabled=true', 'payments.enabled=true', 'payments.database.urlSecret.name=db']

const rbac = '/apis/rbac.authorization.k8s.io/v1'
const secretsOf = (place: string) => `/api/v1/namespaces/${place}/secrets`
const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
const merchants = '/apis/tollway.dev/v1alpha1/namespaces/shop/merchants'
const apply = 'fieldManager=tollway&force=true'

const ownLabels = {
  'app.kubernetes.io/managed-by': 'tollway',
  'app.kubernetes.io/component': 'merchant-credentials',
}
const owner = { apiVersion: 'tollway.dev/v1alpha1', kind: 'Merchant', name: 'shop', uid: 'a-uid' }
const secret = (name: string, metadata: object = {}, more: object = {}) => ({
  ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name, ...metadata } },
  ...{ stringData: { a: 'written by the operator' }, ...more },
})
const credentials = (name: string) => secret(name, { labels: ownLabels, ownerReferences: [owner] })
/** The controller manager fills such a Secret with a token of the account. */
const tokenOf = (account: string, name = 'stolen') =>
  secret(
    name,
    {
      labels: ownLabels,
      ownerReferences: [owner],
      annotations: { 'kubernetes.io/service-account.name': account },
    },
    { type: 'kubernetes.io/service-account-token' },
  )

const labels = { app: 'any' }
const container = { name: 'one', image: 'image' }
const template = { metadata: { labels }, spec: { containers: [container] } }
const deployment = (name: string) => ({
  ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name } },
  spec: { selector: { matchLabels: labels }, template },
})

const merchant = (descriptor: string) => ({
  apiVersion: 'tollway.dev/v1alpha1',
  kind: 'Merchant',
  metadata: { name: 'shop', namespace: 'shop' },
  spec: {
    currency: 'DKK',
    email: 'shop@example.org',
    website: 'https://example.org',
    descriptor,
    company: { country: 'DK' },
  },
})

const clusterAdmin = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' }
const subjects = [{ kind: 'ServiceAccount', name: 'tollway-operator', namespace }]
const everything = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]
const named = (name: string, rest: object) => ({ metadata: { name }, ...rest })

interface Attempt {
  readonly what: string
  readonly method: string
  readonly path: string
  readonly body?: object
}
const attempt = (what: string, method: string, path: string, body?: object): Attempt => ({
  ...{ what, method, path, ...(body && { body }) },
})
const applied = (what: string, name: string) =>
  attempt(what, 'PATCH', `${deployments}/${name}?${apply}`, deployment(name))

/** Attempts that must fail with a stolen operator token, whichever namespaces granted their Secrets. */
const harm: readonly Attempt[] = [
  attempt('obtain a token by a Secret', 'POST', secretsOf('kube-system'), tokenOf('powerful')),
  attempt('obtain a token in its own namespace', 'POST', secretsOf(namespace), tokenOf('default')),
  attempt(
    'obtain a token under the name of an own Secret',
    'POST',
    secretsOf(namespace),
    tokenOf('default', 'tollway-payments'),
  ),
  attempt('obtain a token where it may write', 'POST', secretsOf('shop'), tokenOf('powerful')),
  attempt('list Secrets', 'GET', secretsOf('shop')),
  attempt('list all Secrets', 'GET', '/api/v1/secrets'),
  attempt('create a Secret of any name', 'POST', secretsOf(namespace), secret('any')),
  attempt('create a Secret without its label', 'POST', secretsOf('shop'), secret('any')),
  attempt(
    'create a Secret without an owner',
    'POST',
    secretsOf('shop'),
    secret('any', { labels: ownLabels }),
  ),
  attempt('overwrite a Secret', 'PUT', `${secretsOf('shop')}/foreign`, secret('foreign')),
  attempt('take a Secret over', 'PUT', `${secretsOf('shop')}/foreign`, credentials('foreign')),
  attempt('delete a Secret', 'DELETE', `${secretsOf('shop')}/foreign`),
  attempt(
    'bind itself to a role',
    'POST',
    `${rbac}/namespaces/shop/rolebindings`,
    named('r', { roleRef: clusterAdmin, subjects }),
  ),
  attempt(
    'bind itself in the cluster',
    'POST',
    `${rbac}/clusterrolebindings`,
    named('r', { roleRef: clusterAdmin, subjects }),
  ),
  attempt(
    'extend its role',
    'PATCH',
    `${rbac}/clusterroles/${namespace}-tollway-secrets?${apply}`,
    named(`${namespace}-tollway-secrets`, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      rules: everything,
    }),
  ),
  attempt(
    'request a token',
    'POST',
    `/api/v1/namespaces/${namespace}/serviceaccounts/tollway-ratelimit/token`,
    { spec: { expirationSeconds: 600 } },
  ),
  attempt('create a pod', 'POST', `/api/v1/namespaces/${namespace}/pods`, {
    ...named('p', { spec: { containers: [{ name: 'one', image: 'image' }] } }),
  }),
  attempt('run a command in a pod', 'POST', `/api/v1/namespaces/${namespace}/pods/p/exec?command=id`),
  applied('change a foreign Deployment', 'foreign'),
  applied('run any pod as a service', 'tollway-ratelimit'),
  ...['scale', 'status'].map(part =>
    attempt(
      `write the ${part} of a Deployment`,
      'PATCH',
      `${deployments}/tollway-ratelimit/${part}?${apply}`,
      {
        ...{ apiVersion: part === 'scale' ? 'autoscaling/v1' : 'apps/v1' },
        ...{ kind: part === 'scale' ? 'Scale' : 'Deployment', metadata: { name: 'tollway-ratelimit' } },
        spec: { replicas: 100 },
      },
    ),
  ),
  attempt('replace a Deployment', 'PUT', `${deployments}/tollway-ratelimit`, deployment('tollway-ratelimit')),
  ...[
    'apps/v1 replicasets',
    'apps/v1 statefulsets',
    'apps/v1 daemonsets',
    'batch/v1 jobs',
    'batch/v1 cronjobs',
  ].map(text => {
    const [group = '', resource = ''] = text.split(' ')
    return attempt(
      `create ${resource}`,
      'POST',
      `/apis/${group}/namespaces/${namespace}/${resource}`,
      named('a', {}),
    )
  }),
  attempt(
    'run a container in a pod',
    'PATCH',
    `/api/v1/namespaces/${namespace}/pods/p/ephemeralcontainers?${apply}`,
    {
      ...named('p', { apiVersion: 'v1', kind: 'Pod', spec: {} }),
    },
  ),
  attempt(
    'create a ConfigMap of any name',
    'POST',
    `/api/v1/namespaces/${namespace}/configmaps`,
    named('any', {}),
  ),
  attempt('create a Lease of any name', 'POST', leases, named('any', { spec: {} })),
  attempt('read a foreign ConfigMap', 'GET', `/api/v1/namespaces/${namespace}/configmaps/foreign`),
  attempt(
    'change a foreign Lease',
    'GET',
    `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/foreign`,
  ),
  attempt('change what a Merchant says', 'PATCH', `${merchants}/shop?${apply}`, merchant('OTHER')),
  attempt('create a Merchant', 'POST', merchants, merchant('SHOP')),
  attempt('delete a Merchant', 'DELETE', `${merchants}/shop`),
  attempt('read a namespace', 'GET', '/api/v1/namespaces/shop'),
  attempt(
    'delete an admission policy',
    'DELETE',
    '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/any',
  ),
]

/** The query for one object by its name, as a list or as a watch of a second, whose only event is the object. */
const listOf = (name: string) => `fieldSelector=metadata.name%3D${name}`
const watchOf = (name: string) => `watch=true&timeoutSeconds=1&${listOf(name)}`

/** Attempts that succeed only in a namespace that granted its Secrets. */
const ungranted: readonly Attempt[] = [
  attempt('read a foreign Secret of its namespace', 'GET', `${secretsOf(namespace)}/foreign`),
  attempt('list it by its name', 'GET', `${secretsOf(namespace)}?${listOf('foreign')}`),
  attempt('watch it by its name', 'GET', `${secretsOf(namespace)}?${watchOf('foreign')}`),
  attempt('list the Secrets of its namespace', 'GET', secretsOf(namespace)),
  attempt('watch the Secrets of its namespace', 'GET', `${secretsOf(namespace)}?watch=true`),
  attempt('watch the Leases of its namespace', 'GET', `${leases}?watch=true`),
  attempt('read a foreign Secret', 'GET', `${secretsOf('other')}/foreign`),
  attempt('read a Secret of the system', 'GET', `${secretsOf('kube-system')}/foreign`),
  attempt('create credentials', 'POST', secretsOf('other'), credentials('shop')),
]

/** Attempts that must succeed. */
const duties: readonly Attempt[] = [
  attempt('read a Secret of a granted namespace', 'GET', `${secretsOf('shop')}/foreign`),
  attempt('create credentials there', 'POST', secretsOf('shop'), credentials('shop')),
  attempt('change them', 'PUT', `${secretsOf('shop')}/shop`, credentials('shop')),
  attempt('create an own Secret', 'POST', secretsOf(namespace), secret('tollway-ca')),
  attempt(
    'apply an own Secret',
    'PATCH',
    `${secretsOf(namespace)}/tollway-ca?${apply}`,
    secret('tollway-ca', {}, { stringData: { b: 'c' } }),
  ),
  attempt('read the Secret of the database', 'GET', `${secretsOf(namespace)}/db`),
  attempt('list it by its name', 'GET', `${secretsOf(namespace)}?${listOf('db')}`),
  attempt('watch it by its name', 'GET', `${secretsOf(namespace)}?${watchOf('db')}`),
  attempt('watch an own Secret', 'GET', `${secretsOf(namespace)}?${watchOf('tollway-ca')}`),
  attempt('create its Lease', 'POST', leases, named('tollway-operator', { spec: {} })),
  attempt('watch its Lease', 'GET', `${leases}?${watchOf('tollway-operator')}`),
  attempt(
    'store last good versions',
    'POST',
    `/api/v1/namespaces/${namespace}/configmaps`,
    named('tollway-last-good-ratelimitconfigs-0', {}),
  ),
  attempt('set a finalizer', 'PATCH', `${merchants}/shop?${apply}`, {
    ...named('shop', { apiVersion: 'tollway.dev/v1alpha1', kind: 'Merchant' }),
    ...{ metadata: { name: 'shop', finalizers: ['tollway.dev/merchant'] } },
  }),
]

describe('with the roles and policies of the chart, a token of the operator', {
  skip,
  timeout: 120_000,
}, () => {
  let api: KubeApiServer
  let operatorToken: string
  let operator: KubeApiServer['call']

  before(async () => {
    api = await startKubeApiServer()
    for (const name of [namespace, 'shop', 'other']) await make('/api/v1/namespaces', { metadata: { name } })
    await assertUpgradeAsks()
    await install(['secretNamespaces={shop}'])
    operatorToken = await tokenFor(api, 'tollway-operator')
    operator = api.callAs(operatorToken)
    await make('/api/v1/namespaces/kube-system/serviceaccounts', { metadata: { name: 'powerful' } })
    for (const place of [namespace, 'shop', 'other', 'kube-system'])
      await make(secretsOf(place), named('foreign', { stringData: { a: 'foreign' } }))
    await make(secretsOf(namespace), named('db', { stringData: { url: 'postgres://' } }))
    await make(deployments, deployment('foreign'))
    // The API server reads new policies a moment after it stored them.
    for (const what of [
      'create a Secret without its label',
      'run any pod as a service',
      'change what a Merchant says',
    ]) {
      const probe = harm.find(one => one.what === what) ?? assert.fail(what)
      await waitFor(
        `the policy to refuse to ${what}`,
        async () => (await attemptBy(probe, true)).status === 403,
      )
    }
  })
  after(() => api?.stop())

  async function make(path: string, object: object): Promise<void> {
    const { status, body } = await api.call('POST', path, object)
    assert.equal(status, 201, JSON.stringify(body))
  }

  /** Where the installed version reads all Secrets, an upgrade fails until the values name those to read. */
  async function assertUpgradeAsks(): Promise<void> {
    const { host, port } = await addressOf(api)
    await make('/api/v1/namespaces/kube-system/serviceaccounts', { metadata: { name: 'installer' } })
    const subject = { kind: 'ServiceAccount', name: 'installer', namespace: 'kube-system' }
    const admin = named('installer', { roleRef: clusterAdmin, subjects: [subject] })
    await make(`${rbac}/clusterrolebindings`, admin)
    const access = [
      `--kube-apiserver=https://${host}:${port}`,
      `--kube-token=${await tokenFor(api, 'installer', 'kube-system')}`,
      '--kube-insecure-skip-tls-verify',
    ]
    const upgrade = (...more: readonly string[]) => {
      const set = [...values, ...more].flatMap(one => [one.startsWith('[') ? '--set-json' : '--set', one])
      return helm([
        'install',
        release,
        chart,
        '--take-ownership',
        '--dry-run=server',
        '-n',
        namespace,
        ...access,
        ...set,
      ])
    }
    const old = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }]
    await install([])
    await waitFor('the kind to be served', async () => (await api.call('GET', merchants)).status === 200)
    await make(merchants, merchant('SHOP'))
    assert.match(upgrade(), /MANIFEST/)
    const roles = `${rbac}/clusterroles/${namespace}-${release}-resources`
    await api.call('PATCH', `${roles}?fieldManager=old&force=true`, {
      ...named('x', { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', rules: old }),
      metadata: { name: `${namespace}-${release}-resources` },
    })
    assert.throws(upgrade, /use Secrets: shop\. To keep their rights: --set 'secretNamespaces={shop}'/)
    assert.match(upgrade('secretNamespaces={shop}'), /MANIFEST/)
  }

  async function install(set: readonly string[]): Promise<void> {
    await installRights(api, render({ set: [...values, ...set] }), ['CustomResourceDefinition'])
  }

  function attemptBy({ method, path, body }: Attempt, dryRun = false) {
    const query = `${path.includes('?') ? '&' : '?'}dryRun=All`
    return operator(method, dryRun ? path + query : path, body)
  }

  async function foreignSecrets(): Promise<readonly unknown[]> {
    const places = [namespace, 'shop', 'other', 'kube-system']
    const read = places.map(async place => {
      const { body } = await api.call('GET', `${secretsOf(place)}/foreign`)
      return isObject(body) ? body['data'] : undefined
    })
    return Promise.all(read)
  }

  async function assertRejected(attempts: readonly Attempt[]): Promise<void> {
    const before = await foreignSecrets()
    const done: string[] = []
    for (const one of attempts) {
      const { status, body } = await attemptBy(one)
      if (status !== 403) done.push(`${one.what}: ${status} ${JSON.stringify(body).slice(0, 300)}`)
    }
    assert.deepEqual(done, [])
    assert.deepEqual(await foreignSecrets(), before)
  }

  it('cannot do what would be harmful', () => assertRejected(harm))

  it('neither reads nor writes a Secret of a namespace without a grant', () => assertRejected(ungranted))

  it('can do what the operator needs', async () => {
    const refused: string[] = []
    for (const one of duties) {
      const { status, body } = await attemptBy(one)
      if (status >= 300) refused.push(`${one.what}: ${status} ${JSON.stringify(body).slice(0, 300)}`)
    }
    assert.deepEqual(refused, [])
  })

  it('can read a Secret after an administrator of its namespace ran the command of the status', async t => {
    const { ca, host, port } = await addressOf(api)
    const access = accessAs(operatorToken, `https://${host}:${port}`, ca)
    const client = createKubeClient(access, { random: Math.random })
    t.after(() => client.close())
    const granted = createGrantedSecrets(client, { name: release, watchNamespaces: [] }, namespace)
    const secrets = new PolledSecrets({
      read: granted.read,
      rateLimiter: createReadRateLimiter({ readsPerSecond: 20, clock: systemClock, random: Math.random }),
      random: Math.random,
      onError: () => {},
      timing: { pollMs: 50 },
    })
    t.after(() => secrets.stop())
    const route = { namespace: 'other', secret: 'foreign', key: 'a' }
    await secrets.follow([route])
    const found = secrets.tokens(route)
    assert.ok('forbidden' in found && found.forbidden !== undefined)
    const [, command = ''] = found.forbidden.split('with: ')
    await kubectl(command.split(' ').slice(1), await tenantOf('other'), `https://${host}:${port}`)
    await waitFor('the token to be read', async () => 'hashes' in secrets.tokens(route))
    await api.call('DELETE', `${rbac}/namespaces/other/rolebindings/${namespace}-${release}-operator`)
    await waitFor('the lost right to be noticed', async () => 'forbidden' in secrets.tokens(route))
    assert.ok('hashes' in secrets.tokens(route))
  })

  /** The token of an account that may do anything within one namespace. */
  async function tenantOf(place: string): Promise<string> {
    await make(`/api/v1/namespaces/${place}/serviceaccounts`, { metadata: { name: 'tenant' } })
    const tenant = [{ kind: 'ServiceAccount', name: 'tenant', namespace: place }]
    const binding = named('tenant', { roleRef: clusterAdmin, subjects: tenant })
    await make(`${rbac}/namespaces/${place}/rolebindings`, binding)
    return tokenFor(api, 'tenant', place)
  }

  it("can read any Secret by its name with '*', and still writes only its own", async () => {
    await install(['secretNamespaces={*}'])
    const [read] = ungranted
    assert.ok(read)
    await waitFor('the role to apply', async () => (await attemptBy(read)).status === 200)
    await assertRejected(harm)
  })
})

function accessAs(token: string, server: string, ca: string): KubeApiAccess {
  const headers = { authorization: `Bearer ${token}` }
  return { server: new URL(server), namespace, credentials: async () => ({ headers, tls: { ca } }) }
}

async function kubectl(args: readonly string[], token: string, server: string): Promise<void> {
  const program = join(process.env['KUBE_ASSETS'] ?? '', 'kubectl')
  const options = [
    `--server=${server}`,
    `--token=${token}`,
    '--insecure-skip-tls-verify',
    '--kubeconfig=/dev/null',
  ]
  await promisify(execFile)(program, [...args, ...options])
}
