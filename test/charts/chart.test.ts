import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it, test } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { makeRules } from '../../operator/environments/kubernetes/api/permissions.ts'
import { makePodShape } from '../../operator/workloads/registry.ts'
import { goldenTests } from '../support/golden.ts'
import {
  chart,
  configOf,
  find,
  helm,
  missingHelm,
  namespace,
  type RenderedObject,
  type Rendering,
  render,
} from './helm.ts'

const redis = 'redis.bundled.enabled=true'
const digest = `sha256:${'0'.repeat(64)}`

describe('the chart', { skip: missingHelm(), timeout: 120_000 }, () => {
  describe('renders values', () => {
    goldenTests(join(import.meta.dirname, 'testdata'), values => render({ values }).map(shorten))
  })

  it('renders without a warning of helm', () => {
    const said = helm(['lint', chart, '--strict', '--set', redis])
    assert.match(said, /1 chart\(s\) linted, 0 chart\(s\) failed/)
    assert.doesNotMatch(said, /\[(WARNING|ERROR)\]/)
  })

  it('renders a configuration that the operator accepts, with all values', () => {
    const values = readFileSync(join(import.meta.dirname, 'testdata/every-choice.in.yaml'), 'utf8')
    const asked = load(values, { schema: CORE_SCHEMA }) as Record<string, Record<string, unknown>>
    const judged = validateClusterConfig(configOf(render({ values })))
    assert.ok('value' in judged, JSON.stringify(judged))
    const { lease, domainGrants, watchNamespaces, operatorPort, feedPort, logLevel, rateLimit, broker } =
      judged.value
    const told = { lease, domainGrants, watchNamespaces, logLevel, operatorPort, feedPort }
    const { lease: wanted, operator = {} } = asked
    assert.deepEqual(told, {
      lease: wanted,
      domainGrants: asked['domainGrants'],
      watchNamespaces: asked['watchNamespaces'],
      logLevel: asked['logLevel'],
      operatorPort: operator['port'],
      feedPort: operator['feedPort'],
    })
    assert.partialDeepStrictEqual(rateLimit, asked['rateLimit'])
    assert.deepEqual(rateLimit.backend, { type: 'redis', urlSecret: { name: 'tollway-redis', key: 'url' } })
    assert.partialDeepStrictEqual(broker, asked['broker'])
  })

  it('gives streams a Redis of their own beside that of counters, and both a maxmemory', () => {
    const objects = render({ set: [redis, 'broker.enabled=true'] })
    const judged = validateClusterConfig(configOf(objects))
    assert.ok('value' in judged, JSON.stringify(judged))
    const { broker, rateLimit } = judged.value
    const urlSecret = { name: 'tollway-redis-streams', key: 'url' }
    assert.deepEqual(broker.streamLog, { type: 'redis', urlSecret })
    assert.equal(rateLimit.backend.urlSecret.name, 'tollway-redis')
    for (const [name, maxMemory] of [
      ['tollway-redis', '192mb'],
      ['tollway-redis-streams', '512mb'],
    ]) {
      const found = objects.filter(({ metadata }) => metadata.name === name).map(({ kind }) => kind)
      assert.deepEqual(found.sort(), ['Deployment', 'NetworkPolicy', 'Secret', 'Service'])
      const server = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name)
      assert.match(JSON.stringify(server), new RegExp(`"--maxmemory","${maxMemory}"`))
    }
  })

  it('shares an external Redis with the broker, unless the broker has another one', () => {
    const shared = validateClusterConfig(configOf(render({ set: ['redis.url=r:1', 'broker.enabled=true'] })))
    assert.ok('value' in shared, JSON.stringify(shared))
    const urlSecret = { name: 'tollway-redis', key: 'url' }
    assert.deepEqual(shared.value.broker.streamLog, { type: 'redis', urlSecret })
    const own = ['rateLimit.enabled=false', 'broker.enabled=true', 'broker.streamLog.urlSecret.name=streams']
    const alone = validateClusterConfig(configOf(render({ set: own })))
    assert.ok('value' in alone, JSON.stringify(alone))
    assert.equal(alone.value.broker.streamLog.urlSecret.name, 'streams')
  })

  it('lets the platform choose the user and groups of every pod', () => {
    const objects = render({
      values: readFileSync(join(import.meta.dirname, 'testdata/openshift.in.yaml'), 'utf8'),
    })
    const judged = validateClusterConfig(configOf(objects))
    assert.ok('value' in judged, JSON.stringify(judged))
    const pods = objects.filter(({ kind }) => /^(Deployment|Job|Pod)$/.test(kind))
    assert.ok(pods.length >= 4)
    const ids = /runAsUser|runAsGroup|fsGroup"/
    for (const { kind, metadata, spec } of pods)
      assert.doesNotMatch(JSON.stringify(spec), ids, `${kind} ${metadata.name}`)
    for (const service of ['ratelimit', 'broker', 'payments'] as const) {
      const { podSecurityContext } = makePodShape(judged.value, service)
      assert.doesNotMatch(JSON.stringify(podSecurityContext), ids)
      assert.equal(podSecurityContext['runAsNonRoot'], true)
    }
  })

  it("has the security contexts that are the operator's defaults", () => {
    const judged = validateClusterConfig(configOf(render({ set: [redis] })))
    const defaults = validateClusterConfig({ rateLimit: { enabled: false } })
    assert.ok('value' in judged && 'value' in defaults)
    assert.deepEqual(judged.value.podSecurityContext, defaults.value.podSecurityContext)
    assert.deepEqual(judged.value.containerSecurityContext, defaults.value.containerSecurityContext)
  })

  it('takes images without a registry from image.registry, and pins them by their digests', () => {
    const set = ['image.registry=registry.example.com:5000/mirror', 'image.pullSecrets={mirror}']
    const objects = render({
      set: [redis, ...set, `operator.imageDigest=${digest}`, 'rateLimit.pods.image=ghcr.io/a/ratelimit:1'],
    })
    const pods = objects.filter(({ kind }) => /^(Deployment|Job|Pod)$/.test(kind))
    assert.ok(pods.length >= 4)
    for (const { kind, metadata, spec } of pods) {
      const text = JSON.stringify(spec)
      assert.match(text, /"imagePullSecrets":\[{"name":"mirror"}\]/, `${kind} ${metadata.name}`)
      const [, image] = /"image":"([^"]+)"/.exec(text) ?? []
      const operator = `tollway/operator:0.2.0-dev@${digest}`
      const expected = metadata.name === 'tollway-redis' ? 'redis:7' : operator
      assert.equal(image, `registry.example.com:5000/mirror/${expected}`)
    }
    const judged = validateClusterConfig(configOf(objects))
    assert.ok('value' in judged, JSON.stringify(judged))
    assert.equal(judged.value.rateLimit.pods.image, 'ghcr.io/a/ratelimit:1')
    assert.equal(judged.value.broker.pods.image, 'registry.example.com:5000/mirror/tollway/broker:0.2.0-dev')
    assert.deepEqual(judged.value.broker.pods.imagePullSecrets, ['mirror'])
  })

  it('renders the values of an earlier release the same, as --reuse-values keeps them', () => {
    const added = [
      ...['image', 'commonLabels', 'commonAnnotations', 'feedCertificates', 'console'],
      ...['monitoring.serviceMonitor', 'crds.enabled', 'crds.keep', 'crds.allowDowngrade'],
      ...['objects', 'imageDigest', 'topologySpreadConstraints'].map(name => `operator.${name}`),
      ...['Env', 'Volumes', 'VolumeMounts', 'Containers'].map(name => `operator.extra${name}`),
      ...['operator.initContainers', 'redis.bundled.imageDigest'],
      ...['rateLimit', 'broker', 'payments'].map(name => `${name}.pods.imageDigest`),
    ]
    const made = render({ set: [redis, ...added.map(name => `${name}=null`)] })
    const withoutRevision = (objects: readonly RenderedObject[]) =>
      JSON.parse(JSON.stringify(objects).replaceAll(/(?<="|revision=)[0-9a-f]{16}(?=")/g, 'revision'))
    assert.deepEqual(withoutRevision(made), withoutRevision(render({ set: [redis] })))
  })

  it('runs hooks and tests on the nodes of the operators', () => {
    const values = readFileSync(join(import.meta.dirname, 'testdata/every-choice.in.yaml'), 'utf8')
    const withOperatorImage = render({ values }).filter(
      ({ kind, spec }) =>
        /^(Deployment|Job|Pod)$/.test(kind) && JSON.stringify(spec).includes('tollway/operator'),
    )
    assert.equal(withOperatorImage.length, 4)
    for (const { kind, metadata, spec } of withOperatorImage) {
      const text = JSON.stringify(spec)
      const told = `${kind} ${metadata.name}`
      assert.match(text, /"nodeSelector":{"kubernetes\.io\/os":"linux"}/, told)
      assert.match(text, /"tolerations":\[{"effect":"NoSchedule","key":"dedicated"/, told)
    }
  })

  it('adds common labels and annotations to every object and pod except the definitions', () => {
    const values = readFileSync(join(import.meta.dirname, 'testdata/extra-parts.in.yaml'), 'utf8')
    for (const { kind, metadata, spec } of render({ values })) {
      if (/^(CustomResourceDefinition|ValidatingAdmissionPolicy)/.test(kind)) continue
      const told = `${kind} ${metadata.name}`
      assert.equal(metadata.labels?.['example.com/cost-center'], '42', told)
      assert.equal(metadata.annotations?.['example.com/owner'], 'edge', told)
      const template = isObject(spec) && isObject(spec['template']) ? spec['template'] : { metadata }
      assert.match(JSON.stringify(template['metadata']), /"example.com\/cost-center":"42"/, told)
      assert.match(JSON.stringify(template['metadata']), /"example.com\/owner":"edge"/, told)
    }
  })

  it('prefixes all names with that of the release, and shortens a long one', () => {
    const long = 'a-name-of-thirty-eight-letters-dashes---that-goes-on'
    const objects = render({ name: long, set: [redis, 'crds.enabled=false'] })
    const names = objects.map(({ metadata }) => metadata.name.replace(`${namespace}-`, ''))
    const begins = /^a-name-of-thirty-eight-letters-dashes-[a-z]+(-[a-z]+)?$/
    assert.deepEqual(
      names.filter(name => !begins.test(name)),
      [],
    )
  })
})

test('Artifact Hub lists the kinds and the images of the chart', () => {
  const yaml = (text: string) => load(text, { schema: CORE_SCHEMA })
  const { annotations } = yaml(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as {
    readonly annotations: Readonly<Record<string, string>>
  }
  const entries = (name: string) => yaml(annotations[name] ?? '') as readonly Record<string, string>[]
  assert.deepEqual(
    entries('artifacthub.io/crds').map(({ kind, version, name }) => ({ kind, version, name })),
    resourceKinds.map(({ kind, version, plural }) => ({ kind, version, name: `${plural}.tollway.dev` })),
  )
  const values = yaml(readFileSync(join(chart, 'values.yaml'), 'utf8')) as {
    readonly [field: string]: { readonly image?: string; readonly pods?: { readonly image: string } }
  }
  const images = ['operator', 'rateLimit', 'broker', 'payments'].map(
    field => values[field]?.image ?? values[field]?.pods?.image,
  )
  assert.deepEqual(
    entries('artifacthub.io/images').map(({ image }) => image),
    images,
  )
})

/** Values that the schema rejects, as `--set` takes them, and the line of the error. */
const invalidValues: readonly [what: string, set: readonly string[], line: RegExp][] = [
  ['an unknown value', ['operator.replica=3'], /'\/operator': .*'replica' not allowed/],
  ['an unknown value at the top level', ['operators.replicas=3'], /at '': .*'operators' not allowed/],
  ['an unknown nested value', ['rateLimit.pods.foo=1'], /'\/rateLimit\/pods': .*'foo'/],
  ['a value of another type', ['operator.replicas=many'], /'\/operator\/replicas': got string/],
  ['a value out of its bounds', ['rateLimit.replicas=0'], /'\/rateLimit\/replicas': .*minimum/],
  ['a word that is not allowed', ['logLevel=loud'], /'\/logLevel': .*'error', 'warn'/],
  [
    'an invalid digest',
    ['rateLimit.pods.imageDigest=sha256:12'],
    /'\/rateLimit\/pods\/imageDigest': .*pattern/,
  ],
  ['a registry with a scheme', ['image.registry=https://registry'], /'\/image\/registry': .*pattern/],
  [
    'a common label that the chart sets',
    ['commonLabels.app\\.kubernetes\\.io/name=a'],
    /'\/commonLabels.*app\.kubernetes\.io/,
  ],
  [
    'a volume of the node in pods of a service',
    ['broker.pods.extraVolumes[0].name=a', 'broker.pods.extraVolumes[0].hostPath.path=/'],
    /'\/broker\/pods\/extraVolumes\/0': .*'hostPath' not allowed/,
  ],
  [
    'a host with a path',
    ['console.ingress.hosts={tollway.example.com/console}'],
    /'\/console\/ingress\/hosts\/0': .*pattern/,
  ],
  [
    'an unknown kind of issuer',
    ['feedCertificates.issuer=acme'],
    /'\/feedCertificates\/issuer': .*'operator', 'cert-manager'/,
  ],
  ...['operator', 'rateLimit.pods', 'broker.pods', 'payments.pods'].flatMap(
    (pods): [string, readonly string[], RegExp][] => {
      const path = `/${pods.replace('.', '/')}`
      return [
        [
          `a variable of ${pods} with a number`,
          [`${pods}.extraEnv[0].name=A`, `${pods}.extraEnv[0].value=5`],
          new RegExp(`'${path}/extraEnv/0/value': got number, want string`),
        ],
        [
          `a variable of ${pods} without a name`,
          [`${pods}.extraEnv[1].value=a`],
          new RegExp(`'${path}/extraEnv/1': missing property 'name'`),
        ],
        [
          `a nodeSelector of ${pods} with a number`,
          [`${pods}.nodeSelector.rack=5`],
          new RegExp(`'${path}/nodeSelector/rack': got number, want string`),
        ],
        [
          `a toleration of ${pods} with a number`,
          [`${pods}.tolerations[0].key=rack`, `${pods}.tolerations[0].value=5`],
          new RegExp(`'${path}/tolerations/0/value': got number, want string`),
        ],
      ]
    },
  ),
  ...[
    ...['commonLabels', 'commonAnnotations', 'rateLimit.env', 'broker.env', 'payments.env'],
    ...['operator.labels', 'operator.annotations', 'rateLimit.pods.labels', 'rateLimit.pods.annotations'],
    ...['deployment', 'service', 'serviceAccount'].flatMap(name =>
      ['labels', 'annotations'].map(field => `rateLimit.objects.${name}.${field}`),
    ),
    ...['console.ingress.annotations', 'console.httpRoute.labels', 'monitoring.podMonitor.labels'],
  ].map((map): [string, readonly string[], RegExp] => [
    `a number in ${map}`,
    [`${map}.rack=5`],
    new RegExp(`'/${map.replaceAll('.', '/')}/rack': got number, want string`),
  ]),
]

describe('the schema of the chart rejects', { skip: missingHelm() }, () => {
  let lines: readonly string[] = []
  before(() => {
    // helm reports all of them at once.
    const set = [redis, ...invalidValues.flatMap(([, some]) => some)]
    assert.throws(
      () => render({ set }),
      ({ message }: Error) => {
        lines = message.split('\n').filter(line => / at '.*': (?!validation failed)/.test(line))
        return true
      },
    )
  })

  for (const [what, , pattern] of invalidValues) {
    it(what, () => {
      assert.equal(lines.filter(line => pattern.test(line)).length, 1, lines.join('\n'))
    })
  }

  it('nothing else', () => {
    assert.equal(lines.length, invalidValues.length, lines.join('\n'))
  })
})

/** Values that the templates reject, and the words of the error. */
const rejections: readonly [string, Rendering, RegExp][] = [
  ['an unknown value alone', { set: [redis, 'operator.replica=3'] }, /'\/operator': .*'replica' not allowed/],
  [
    'no Redis',
    {},
    /exactly one of redis\.existingSecret\.name, redis\.url and redis\.bundled\.enabled; 0 are set/,
  ],
  [
    'no Redis for streams',
    { set: ['rateLimit.enabled=false', 'broker.enabled=true'] },
    /; 0 are set\..* broker\.streamLog\.type=memory and broker\.replicas=1/,
  ],
  ['two Redis for streams', { set: [redis, 'redis.url=redis:6379'] }, /exactly one of redis\..*; 2 are set/],
  ['all three', { set: [redis, 'redis.url=a:1', 'redis.existingSecret.name=a'] }, /; 3 are set/],
  [
    'Secrets of a namespace that it does not watch',
    { set: [redis, 'watchNamespaces={shop}', 'secretNamespaces={shop,web}'] },
    /"web" is not in watchNamespaces/,
  ],
  [
    'two digests',
    { set: [redis, `operator.image=a@${digest}`, `operator.imageDigest=${digest}`] },
    /operator\.imageDigest: a@sha256:0+ has a digest already/,
  ],
  [
    'more variables than an admission policy can list',
    {
      set: [redis],
      values: `rateLimit: {pods: {extraEnv: [{name: A, value: ${'a'.repeat(100_000)}}]}}`,
    },
    /take 10\d{4} characters of an admission policy; at most 100000 .* operatorPolicy\.enabled=false/,
  ],
  [
    'two monitors of each pod',
    { set: [redis, 'monitoring.podMonitor.enabled=true', 'monitoring.serviceMonitor.enabled=true'] },
    /monitoring: podMonitor\.enabled and serviceMonitor\.enabled are both true/,
  ],
  [
    'an Ingress for every host',
    { set: [redis, 'console.ingress.enabled=true'] },
    /console\.ingress\.hosts: name at least one host/,
  ],
  [
    'an HTTPRoute without a Gateway',
    { set: [redis, 'console.httpRoute.enabled=true'] },
    /console\.httpRoute\.parentRefs: name at least one Gateway/,
  ],
  [
    'cert-manager without an issuer',
    { set: [redis, 'feedCertificates.issuer=cert-manager'] },
    /feedCertificates\.issuerRef\.name: name the Issuer/,
  ],
  [
    'a Lease that is shorter than its renewal',
    { set: [redis, 'lease.durationSeconds=3'] },
    /lease\.renewDeadlineSeconds: 6 must be below lease\.durationSeconds, 3/,
  ],
  [
    'a renewal that is shorter than its retry',
    { set: [redis, 'lease.retrySeconds=7'] },
    /lease\.retrySeconds: 7 must be below lease\.renewDeadlineSeconds, 6/,
  ],
  [
    'more pods at least than at most',
    { set: [redis, 'rateLimit.autoscaling.enabled=true', 'rateLimit.autoscaling.minReplicas=11'] },
    /rateLimit\.autoscaling\.minReplicas: 11 must be at most maxReplicas, 10/,
  ],
  [
    'autoscaling without a metric',
    { set: [redis, 'rateLimit.autoscaling.enabled=true', 'rateLimit.autoscaling.targetCpuPercent=0'] },
    /rateLimit\.autoscaling\.metrics: at least one metric is required/,
  ],
  [
    'pods that count separately',
    { set: ['rateLimit.backend.type=memory', 'rateLimit.replicas=2'] },
    /rateLimit\.backend\.type: "memory" is not allowed with 2 replicas/,
  ],
  [
    'brokers that share no streams',
    { set: [redis, 'broker.enabled=true', 'broker.streamLog.type=memory', 'broker.replicas=2'] },
    /broker\.streamLog\.type: "memory" is not allowed with 2 replicas/,
  ],
  [
    'a budget that prevents the drain of nodes',
    { values: "rateLimit: {pods: {maxUnavailable: '0'}}", set: [redis] },
    /rateLimit\.pods\.maxUnavailable: "0" is not allowed/,
  ],
  [
    'an admin API without tokens',
    { set: [redis, 'broker.enabled=true', 'broker.admin.enabled=true'] },
    /broker\.admin\.tokenSecret\.name: is required/,
  ],
  [
    'payments without a database',
    { set: [redis, 'payments.enabled=true', 'payments.database.urlSecret.name='] },
    /payments\.database\.urlSecret\.name: is required/,
  ],
  ['a name that begins with a digit', { name: '1st', set: [redis] }, /"1st".* must begin with a letter/],
  ['a name with a dot', { name: 'a.b', set: [redis] }, /"a\.b".*; take "tollway-a-b"/],
]

describe('the chart rejects', { skip: missingHelm() }, () => {
  for (const [what, rendering, pattern] of rejections) {
    it(what, () => {
      assert.throws(() => render(rendering), pattern)
    })
  }
})

describe('the roles of the chart', { skip: missingHelm() }, () => {
  const own = [
    ...makeRules('own', { installation: 'tollway' }),
    {
      ...{ apiGroups: [''], resources: ['secrets'], resourceNames: ['tollway-redis'] },
      verbs: ['get', 'list', 'watch'],
    },
  ]
  const workloads = { kind: 'Role', name: 'tollway-workloads', rules: own }
  const resources = { name: `${namespace}-tollway-resources`, rules: makeRules('watched') }
  const secrets = { name: `${namespace}-tollway-secrets`, rules: makeRules('granted') }
  const reviews = { name: `${namespace}-tollway-reviews`, rules: makeRules('cluster') }

  it('are exactly the rights of the operator', () => {
    assert.deepEqual(rolesOf(render({ set: [redis] })), [
      { kind: 'ClusterRole', ...resources },
      { kind: 'ClusterRole', ...secrets },
      { kind: 'ClusterRole', ...reviews },
      workloads,
    ])
  })

  it('are limited to the watched namespaces, if there are any', () => {
    const objects = render({ set: [redis, 'watchNamespaces={shop,search}'] })
    assert.deepEqual(rolesOf(objects), [
      { kind: 'ClusterRole', ...reviews },
      workloads,
      ...['shop', 'search'].flatMap(place => [
        { kind: 'Role', namespace: place, ...resources },
        { kind: 'Role', namespace: place, ...secrets },
      ]),
    ])
  })

  it('allow writes of Secrets only with payments', () => {
    const set = [redis, 'payments.enabled=true', 'payments.database.urlSecret.name=db']
    const { rules } = find(render({ set }), 'ClusterRole', secrets.name)
    assert.deepEqual(rules, [...makeRules('granted'), ...makeRules('granted', { only: 'payments' })])
  })

  it('never let the operator change its own rights', () => {
    const rules = rolesOf(
      render({
        set: [redis, 'secretNamespaces={*}', 'payments.enabled=true', 'payments.database.urlSecret.name=db'],
      }),
    )
    assert.doesNotMatch(
      JSON.stringify(rules),
      /rbac\.authorization|"\*"|bind|escalate|impersonate|token(?!reviews)/,
    )
  })

  const granted: readonly [values: readonly string[], bindings: readonly string[]][] = [
    [[], []],
    [['secretNamespaces={shop,web}'], ['RoleBinding shop ClusterRole', 'RoleBinding web ClusterRole']],
    [['secretNamespaces={*}'], ['ClusterRoleBinding  ClusterRole']],
    [['secretNamespaces={shop,*}'], ['ClusterRoleBinding  ClusterRole']],
    [['secretNamespaces={shop}', 'watchNamespaces={shop,web}'], ['RoleBinding shop Role']],
    [
      ['secretNamespaces={*}', 'watchNamespaces={shop,web}'],
      ['RoleBinding shop Role', 'RoleBinding web Role'],
    ],
  ]
  for (const [values, expected] of granted) {
    it(`bind Secrets with ${values.join(', ') || 'nothing'} in ${expected.length} places`, () => {
      const bindings = bindingsOf(render({ set: [redis, ...values] })).filter(
        ({ roleRef }) => roleRef.name === secrets.name,
      )
      const places = bindings.map(
        ({ kind, metadata, roleRef }) => `${kind} ${metadata.namespace ?? ''} ${roleRef.kind}`,
      )
      assert.deepEqual(places, expected)
    })
  }

  it('are bound to the account of the operator alone', () => {
    const operator = { kind: 'ServiceAccount', name: 'tollway-operator', namespace }
    for (const set of [[redis], [redis, 'watchNamespaces={shop}'], [redis, 'secretNamespaces={shop}']]) {
      const objects = render({ set })
      for (const { subjects, roleRef } of bindingsOf(objects)) {
        assert.deepEqual(subjects, [operator])
        find(objects, roleRef.kind, roleRef.name)
      }
    }
  })
})

test('the Job of an uninstall has only the right to list what the operator creates', {
  skip: missingHelm(),
}, () => {
  const { rules } = find(render({ set: [redis] }), 'Role', 'tollway-removal')
  const listed = (rules as readonly { resources: readonly string[]; verbs: readonly string[] }[]).map(
    ({ resources, verbs }) => `${verbs.join()} ${resources.join()}`,
  )
  assert.deepEqual(listed, [
    'list pods,services,serviceaccounts',
    'list deployments',
    'list horizontalpodautoscalers',
    'list networkpolicies',
    'list poddisruptionbudgets',
  ])
})

interface Binding extends RenderedObject {
  readonly roleRef: { readonly kind: string; readonly name: string }
  readonly subjects: readonly unknown[]
}

function bindingsOf(objects: readonly RenderedObject[]): readonly Binding[] {
  const found = objects.filter(object => /^(Cluster)?RoleBinding$/.test(object.kind) && !isHook(object))
  return found as readonly RenderedObject[] as readonly Binding[]
}

/** The roles of the operator, without those of hooks and those that add to the cluster's own roles. */
function rolesOf(objects: readonly RenderedObject[]) {
  const roles = objects.filter(
    object => /^(Cluster)?Role$/.test(object.kind) && !isForPeople(object.metadata) && !isHook(object),
  )
  return roles
    .map(({ kind, metadata, rules }) => ({
      kind,
      ...(metadata.namespace !== undefined && { namespace: metadata.namespace }),
      name: metadata.name,
      rules,
    }))
    .sort((a, b) => (a.kind < b.kind ? -1 : 0))
}

function isHook({ metadata: { annotations = {} } }: RenderedObject): boolean {
  return annotations['helm.sh/hook'] !== undefined
}

function isForPeople({ labels = {} }: RenderedObject['metadata']): boolean {
  return Object.keys(labels).some(label => label.startsWith('rbac.authorization.k8s.io/aggregate-to-'))
}

/** Leaves out definitions and the dashboard, which have separate tests and would be most of a golden file. */
function shorten(object: RenderedObject): unknown {
  const { apiVersion, kind, metadata } = object
  if (/^(CustomResourceDefinition|ValidatingAdmissionPolicy)/.test(kind)) {
    return { apiVersion, kind, name: metadata.name, annotations: metadata.annotations }
  }
  const { data } = object
  if (!isObject(data) || data['tollway.json'] === undefined) return object
  return { ...object, data: { 'tollway.json': 'files/dashboard.json' } }
}
