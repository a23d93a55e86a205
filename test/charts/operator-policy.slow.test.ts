import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '@tollway/chassis/is-object.ts'
import { objectPath, withQuery } from '../../operator/environments/kubernetes/api/client.ts'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { kinds, requireKind } from '../../operator/environments/kubernetes/infrastructure/kinds.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { missingHelm, namespace, release, render } from './helm.ts'
import { installRights, madeObjects, tokenFor } from './operator-account.ts'

const skip = missingHelm() || missingKubeAssets()
const folder = join(import.meta.dirname, 'testdata')
const cases = readdirSync(folder)
  .filter(name => name.endsWith('.in.yaml'))
  .map(input => ({ name: input.replace('.in.yaml', ''), input }))

/** The default values, with all services, and with a container and a volume that the values add. */
const values = `
redis: {bundled: {enabled: true}}
podSecurityContext: {supplementalGroups: []}
containerSecurityContext: {capabilities: {add: []}}
broker: {enabled: true}
payments: {enabled: true, database: {urlSecret: {name: db}}}
rateLimit:
  autoscaling: {enabled: true}
  pods:
    extraEnv: [{name: REGION, valueFrom: {configMapKeyRef: {name: cluster, key: region}}}, {name: NODE_OPTIONS, value: '--title=$NAME <&> "é"'}]
    extraVolumes: [{name: scripts, configMap: {name: scripts}}]
    extraVolumeMounts: [{name: scripts, mountPath: /scripts}]
    extraContainers: [{name: shipper, image: shipper, command: [sh, /scripts/ship.sh], livenessProbe: {exec: {command: [ok]}}}]
    annotations: {example.com/owner: limits}
`

type Fields = Readonly<Record<string, unknown>>
/** The values to try for each field, or why there are none. */
type Attempts = Readonly<Record<string, readonly unknown[] | 'free' | 'together' | 'elsewhere'>>

interface Table {
  /** A type of the API, all of whose fields the table has. */
  readonly type: string
  /** Returns the object with these fields. */
  readonly with: (object: KubeObject, fields: Fields) => KubeObject
  /**
   * The values to try for each field. The operator may choose those of `free` fields; `together` are fields
   * that are valid only with others; another table has those of `elsewhere`.
   */
  readonly attempts: Attempts
  readonly together?: readonly Fields[]
  /** Fields that the API server itself rejects or drops. */
  readonly never?: readonly string[]
}

/** Returns the object with another value at the path of names of fields and indexes of lists. */
function change(
  object: unknown,
  [key, ...rest]: readonly (string | number)[],
  by: (old: unknown) => unknown,
): unknown {
  if (key === undefined) return by(object)
  if (typeof key === 'number') {
    const list: readonly unknown[] = Array.isArray(object) ? object : []
    return list.with(key, change(list[key], rest, by))
  }
  const fields = isObject(object) ? object : {}
  return { ...fields, [key]: change(fields[key], rest, by) }
}
/** Returns a function that sets fields of what is at the path. */
const within =
  (...path: readonly (string | number)[]) =>
  (object: KubeObject, fields: Fields) =>
    change(object, path, old => ({ ...(isObject(old) ? old : {}), ...fields })) as KubeObject
/** Returns a function that adds an element to the list at the path. */
const added =
  (...path: readonly (string | number)[]) =>
  (object: KubeObject, element: Fields) =>
    change(object, path, old => [...(Array.isArray(old) ? old : []), element]) as KubeObject

const pod = ['spec', 'template', 'spec']
const container = [...pod, 'containers', 0]
const exec = { exec: { command: ['node', '-e', '0'] } }
const elsewhere = { httpGet: { port: 80, host: '169.254.169.254' } }
const secret = { secretName: 'foreign' }
const name = 'foreign'
const probes = [exec, elsewhere, { tcpSocket: { port: 80, host: '10.0.0.1' } }]
const seccomp = [{ type: 'Unconfined' }, { type: 'Localhost', localhostProfile: 'own.json' }]
const appArmor = [
  { type: 'Unconfined' },
  { type: 'Localhost', localhostProfile: 'own' },
  { type: 'RuntimeDefault' },
]
const user = [0, 1000]
const seLinux = [{ type: 'spc_t' }, { user: 'root' }, { role: 'sysadm_r' }, { level: 's0' }]
const windows = [
  { runAsUserName: 'ContainerAdministrator' },
  { gmsaCredentialSpecName: 'a' },
  { gmsaCredentialSpec: 'a' },
]

/** The fields of pods and of Services. A field that a later version of Kubernetes adds must be added. */
const podTables: readonly Table[] = [
  {
    type: 'PodSpec',
    with: within(...pod),
    attempts: {
      activeDeadlineSeconds: [60],
      affinity: 'free',
      automountServiceAccountToken: [true, null],
      containers: [[{ name: 'own', image: 'busybox' }]],
      dnsConfig: [{ nameservers: ['10.0.0.1'] }],
      dnsPolicy: ['Default', 'ClusterFirstWithHostNet'],
      enableServiceLinks: 'free',
      ephemeralContainers: [[{ name: 'debug', image: 'busybox' }]],
      hostAliases: [[{ ip: '10.0.0.1', hostnames: ['redis'] }]],
      hostIPC: [true],
      hostNetwork: [true],
      hostPID: [true],
      hostUsers: [true, false],
      hostname: ['other'],
      hostnameOverride: ['other'],
      imagePullSecrets: [[{ name }]],
      initContainers: [[{ name: 'first', image: 'busybox' }]],
      nodeName: ['control-plane'],
      nodeSelector: 'free',
      os: [{ name: 'linux' }],
      overhead: [{ cpu: '1' }],
      preemptionPolicy: ['Never'],
      priority: [1000],
      priorityClassName: ['system-node-critical'],
      readinessGates: [[{ conditionType: 'example.com/ready' }]],
      resourceClaims: [[{ name: 'gpu', resourceClaimName: 'gpu' }]],
      resources: [{ limits: { cpu: '1' } }],
      restartPolicy: ['Never'],
      runtimeClassName: ['unsafe'],
      schedulerName: ['own'],
      schedulingGates: [[{ name: 'example.com/wait' }]],
      schedulingGroup: [{ podGroupName: 'own' }],
      securityContext: [{}, null],
      serviceAccount: 'together',
      serviceAccountName: ['default', 'tollway-operator', 'tollway-broker'],
      setHostnameAsFQDN: [true],
      shareProcessNamespace: [true],
      subdomain: ['other'],
      terminationGracePeriodSeconds: 'free',
      tolerations: 'free',
      topologySpreadConstraints: 'free',
      volumes: 'elsewhere',
    },
    together: [{ serviceAccount: 'default', serviceAccountName: null }],
    never: ['activeDeadlineSeconds', 'ephemeralContainers', 'restartPolicy', 'schedulingGroup'],
  },
  {
    type: 'PodSecurityContext',
    with: within(...pod, 'securityContext'),
    attempts: {
      appArmorProfile: appArmor,
      fsGroup: [0],
      fsGroupChangePolicy: ['Always'],
      runAsGroup: [0],
      runAsNonRoot: [false, null],
      runAsUser: [...user, null],
      seLinuxChangePolicy: ['Recursive'],
      seLinuxOptions: seLinux,
      seccompProfile: [...seccomp, null],
      supplementalGroups: [[0]],
      supplementalGroupsPolicy: ['Strict'],
      sysctls: [[{ name: 'net.ipv4.ip_forward', value: '1' }]],
      windowsOptions: windows,
    },
  },
  {
    type: 'SecurityContext',
    with: within(...container, 'securityContext'),
    attempts: {
      allowPrivilegeEscalation: [true, null],
      appArmorProfile: appArmor,
      capabilities: [
        { drop: ['ALL'], add: ['SYS_ADMIN', 'SYS_MODULE', 'SYS_PTRACE', 'SYS_RAWIO'] },
        { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
        { drop: ['NET_RAW'] },
        { drop: [] },
        null,
      ],
      privileged: 'together',
      procMount: ['Default'],
      readOnlyRootFilesystem: [false, null],
      runAsGroup: [0],
      runAsNonRoot: [false],
      runAsUser: user,
      seLinuxOptions: seLinux,
      seccompProfile: seccomp,
      windowsOptions: windows,
    },
    together: [{ privileged: true, allowPrivilegeEscalation: true }],
  },
  {
    type: 'Container',
    with: within(...container),
    attempts: {
      args: [['-e', '0']],
      command: [['node']],
      env: [
        [{ name: 'NODE_OPTIONS', value: '--import=data:text/javascript,0' }],
        [{ name: 'LD_PRELOAD', value: '/tmp/own.so' }],
      ],
      envFrom: [[{ secretRef: { name } }], [{ configMapRef: { name } }]],
      image: ['busybox', 'tollway/broker:0.2.0-dev', 'tollway/ratelimit:latest'],
      imagePullPolicy: 'free',
      lifecycle: [{ postStart: exec }, { preStop: exec }, { preStop: elsewhere }],
      livenessProbe: probes,
      name: ['other'],
      ports: [[{ containerPort: 8081, hostPort: 8081 }]],
      readinessProbe: probes,
      resizePolicy: [[{ resourceName: 'cpu', restartPolicy: 'NotRequired' }]],
      resources: 'free',
      restartPolicy: ['Always'],
      restartPolicyRules: 'together',
      securityContext: [{}, null],
      startupProbe: probes,
      stdin: [true],
      stdinOnce: [true],
      terminationMessagePath: 'free',
      terminationMessagePolicy: 'free',
      tty: [true],
      volumeDevices: [[{ name: 'disk', devicePath: '/dev/disk' }]],
      volumeMounts: [[{ name: 'tmp', mountPath: '/app' }]],
      workingDir: ['/tmp'],
    },
    together: [
      {
        restartPolicy: 'Never',
        restartPolicyRules: [{ action: 'Restart', exitCodes: { operator: 'In', values: [1] } }],
      },
    ],
    never: ['volumeDevices'],
  },
  {
    type: 'ContainerPort',
    with: within(...container, 'ports', 0),
    attempts: {
      containerPort: 'free',
      hostIP: ['0.0.0.0'],
      hostPort: [8081],
      name: 'free',
      protocol: 'free',
    },
  },
  {
    type: 'EnvVarSource',
    with: (object, valueFrom) => added(...container, 'env')(object, { name: 'LOG_FORMAT', valueFrom }),
    attempts: {
      configMapKeyRef: [{ name, key: 'a' }],
      fieldRef: [{ fieldPath: 'metadata.name' }],
      fileKeyRef: [{ volumeName: 'tmp', path: 'a', key: 'a' }],
      resourceFieldRef: [{ resource: 'limits.memory' }],
      secretKeyRef: [{ name, key: 'a' }],
    },
  },
  {
    type: 'VolumeMount',
    with: (object, fields) =>
      added(...container, 'volumeMounts')(object, { name: 'tmp', mountPath: '/var/tmp', ...fields }),
    attempts: {
      mountPath: ['/app', '/etc/tollway/own'],
      mountPropagation: ['HostToContainer'],
      name: ['feed'],
      readOnly: [true],
      recursiveReadOnly: 'together',
      subPath: ['own'],
      subPathExpr: ['$(POD_NAME)'],
    },
    together: [{ readOnly: true, recursiveReadOnly: 'Enabled' }],
  },
  {
    type: 'Volume',
    with: (object, fields) => added(...pod, 'volumes')(object, { name: 'own', ...fields }),
    attempts: {
      awsElasticBlockStore: [{ volumeID: 'a' }],
      azureDisk: [{ diskName: 'a', diskURI: 'https://a.blob.core.windows.net/a/a.vhd' }],
      azureFile: [{ secretName: name, shareName: 'a' }],
      cephfs: [{ monitors: ['a'] }],
      cinder: [{ volumeID: 'a' }],
      configMap: [{ name }],
      csi: [{ driver: 'secrets-store.csi.k8s.io' }],
      downwardAPI: [{ items: [{ path: 'a', fieldRef: { fieldPath: 'metadata.name' } }] }],
      emptyDir: [{}],
      ephemeral: [
        {
          volumeClaimTemplate: {
            spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
          },
        },
      ],
      fc: [{ targetWWNs: ['a'], lun: 0 }],
      flexVolume: [{ driver: 'example.com/own' }],
      flocker: [{ datasetName: 'a' }],
      gcePersistentDisk: [{ pdName: 'a' }],
      gitRepo: [{ repository: 'https://example.org/a' }],
      glusterfs: [{ endpoints: 'a', path: 'a' }],
      hostPath: [{ path: '/' }, { path: '/run/containerd/containerd.sock' }],
      image: [{ reference: 'busybox' }],
      iscsi: [{ targetPortal: '10.0.0.1', iqn: 'iqn.2001-04.com.example:a', lun: 0 }],
      name: 'free',
      nfs: [{ server: '10.0.0.1', path: '/' }],
      persistentVolumeClaim: [{ claimName: name }],
      photonPersistentDisk: [{ pdID: 'a' }],
      portworxVolume: [{ volumeID: 'a' }],
      projected: [
        { sources: [{ serviceAccountToken: { path: 'token' } }] },
        { sources: [{ secret: { name } }] },
        { sources: [{ configMap: { name } }] },
      ],
      quobyte: [{ registry: 'a:1', volume: 'a' }],
      rbd: [{ monitors: ['a'], image: 'a' }],
      scaleIO: [{ gateway: 'a', system: 'a', volumeName: 'a', secretRef: { name } }],
      secret: [
        secret,
        { secretName: 'tollway-ca' },
        { secretName: 'db' },
        { secretName: 'tollway-payments' },
      ],
      storageos: [{ volumeName: 'a', volumeNamespace: 'a' }],
      vsphereVolume: [{ volumePath: '[a] a' }],
    },
  },
]

const serviceTables: readonly Table[] = [
  {
    type: 'ServiceSpec',
    with: within('spec'),
    attempts: {
      allocateLoadBalancerNodePorts: 'together',
      clusterIP: 'free',
      clusterIPs: 'free',
      externalIPs: [['10.0.0.1']],
      externalName: 'together',
      externalTrafficPolicy: 'together',
      healthCheckNodePort: 'together',
      internalTrafficPolicy: 'free',
      ipFamilies: 'free',
      ipFamilyPolicy: 'free',
      loadBalancerClass: 'together',
      loadBalancerIP: ['10.0.0.1'],
      loadBalancerSourceRanges: 'together',
      ports: [[{ name: 'http', port: 443, targetPort: 'http' }]],
      publishNotReadyAddresses: [true],
      selector: [{ 'app.kubernetes.io/name': 'tollway-operator' }, {}, null],
      sessionAffinity: 'free',
      sessionAffinityConfig: 'together',
      trafficDistribution: ['PreferSameZone'],
      type: ['NodePort', 'LoadBalancer'],
    },
    together: [
      { type: 'ExternalName', externalName: 'metadata.google.internal' },
      { type: 'NodePort', ports: [{ name: 'http', port: 8080, targetPort: 'http', nodePort: 30_000 }] },
      { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false, loadBalancerClass: 'example.com/own' },
      { type: 'LoadBalancer', loadBalancerSourceRanges: ['0.0.0.0/0'] },
      { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30_001 },
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
    ],
  },
  {
    type: 'ServicePort',
    with: within('spec', 'ports', 0),
    attempts: {
      appProtocol: ['kubernetes.io/h2c'],
      name: ['other'],
      nodePort: 'elsewhere',
      port: [443],
      protocol: ['UDP'],
      targetPort: [22, 'metrics'],
    },
  },
]

/** Returns objects that the operator would apply, by what they are for. */
function otherAttempts(
  find: (kind: string, name: string) => KubeObject,
): Readonly<Record<string, KubeObject>> {
  const of = (kind: string) => find(kind, 'tollway-ratelimit')
  const [deployment, account] = [of('Deployment'), of('ServiceAccount')]
  const service = find('Service', 'tollway-ratelimit-http')
  const template = within('spec', 'template', 'metadata', 'annotations')
  const labels = within('spec', 'template', 'metadata', 'labels')
  const shipper = within(...pod, 'containers', 1)
  const operators = { 'app.kubernetes.io/name': 'tollway-operator' }
  const appArmor = 'container.apparmor.security.beta.kubernetes.io/ratelimit'
  const variable = (name: string, value: Fields) =>
    change(deployment, [...container, 'env'], env =>
      (env as readonly Fields[]).map(one => (one['name'] === name ? { name, ...value } : one)),
    ) as KubeObject
  return {
    'override AppArmor by an annotation': template(deployment, { [appArmor]: 'unconfined' }),
    'let a webhook inject a container': labels(deployment, { 'sidecar.istio.io/inject': 'true' }),
    'set an annotation without a value': template(deployment, { 'sidecar.istio.io/inject': '' }),
    'set an annotation of the values to another value': template(deployment, {
      'example.com/owner': 'other',
    }),
    'give pods the labels of the operators': within(
      'spec',
      'selector',
      'matchLabels',
    )(labels(deployment, operators), operators),
    'run more pods than the values say': within('spec')(deployment, { replicas: 200 }),
    'run another image in a container of the values': shipper(deployment, { image: 'busybox' }),
    'run another command in it': shipper(deployment, { command: ['sh', '-c', 'id'] }),
    'run another command as its probe': shipper(deployment, { livenessProbe: exec }),
    'give it the variables of the service': shipper(deployment, { env: [{ name: 'PORT', value: '1' }] }),
    'read another ConfigMap as a variable of the values': variable('REGION', {
      valueFrom: { configMapKeyRef: { name, key: 'region' } },
    }),
    'read a Secret as a variable of its own': variable('LOG_LEVEL', {
      valueFrom: { secretKeyRef: { name: 'db', key: 'url' } },
    }),
    'set a variable of the values to another value': variable('NODE_OPTIONS', {
      value: '--import=data:text/javascript,0',
    }),
    'put a Secret that it writes in the place of a volume of the values': change(
      deployment,
      [...pod, 'volumes'],
      volumes =>
        (volumes as readonly Fields[]).map(({ name, ...source }) =>
          name === 'scripts' ? { name, secret: { secretName: 'tollway-payments' } } : { name, ...source },
        ),
    ) as KubeObject,
    'publish a name in DNS': within('metadata', 'annotations')(service, {
      'external-dns.alpha.kubernetes.io/hostname': 'bank.example.org',
    }),
    'give an account a role of the cloud': within('metadata', 'annotations')(account, {
      'eks.amazonaws.com/role-arn': 'arn:aws:iam::1:role/admin',
    }),
    'give an account a token': within()(account, { automountServiceAccountToken: true }),
    'give an account a Secret': within()(account, { secrets: [{ name }] }),
    'give an account a pull secret': within()(account, { imagePullSecrets: [{ name }] }),
    'block the drain of all nodes': within('spec')(of('PodDisruptionBudget'), { selector: {} }),
    'cut off all pods of the namespace': within('spec')(of('NetworkPolicy'), { podSelector: {} }),
    'scale a foreign Deployment': within('spec', 'scaleTargetRef')(of('HorizontalPodAutoscaler'), { name }),
    'scale without the limit of the values': within('spec')(of('HorizontalPodAutoscaler'), {
      maxReplicas: 100,
    }),
  }
}

interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs?: readonly string[]
}

interface JudgedSpec {
  readonly matchConstraints: { readonly resourceRules: readonly Rule[] }
}

/** What no policy judges: reports, and questions to the API server. */
const withoutPolicy = [
  'animationstreamroutes/status',
  'events',
  'merchants/status',
  'ratelimitconfigs/status',
  'subjectaccessreviews',
  'tokenreviews',
]

const dryRun = { dryRun: 'All' }
const specOf = (found: unknown) => (isObject(found) ? found['spec'] : undefined)

describe('the policies of the operator', { skip, timeout: 180_000 }, () => {
  let api: KubeApiServer
  let operator: KubeApiServer['call']
  let made: readonly KubeObject[]
  before(async () => {
    api = await startKubeApiServer()
    for (const name of [namespace, 'shop', 'search']) {
      const { status } = await api.call('POST', '/api/v1/namespaces', { metadata: { name } })
      assert.equal(status, 201)
    }
    const objects = render({ values })
    await installRights(api, objects)
    made = madeObjects(objects, release)
    operator = api.callAs(await tokenFor(api, `${release}-operator`))
    await policiesInForce(operator, made)
  })
  after(() => api?.stop())

  const find = (kind: string, name: string) =>
    made.find(object => object.kind === kind && object.metadata.name === name) ?? assert.fail(name)
  const rateLimit = (kind = 'Deployment') => find(kind, 'tollway-ratelimit')

  function apply(call: KubeApiServer['call'], object: KubeObject, query = {}) {
    const path = objectPath(kinds[requireKind(object)], object.metadata)
    return call('PATCH', withQuery(path, { fieldManager: 'tollway', force: 'true', ...query }), object)
  }

  /** Resolves when the API server uses the policies, which it reads a moment after it stored them. */
  async function policiesInForce(call: KubeApiServer['call'], objects: readonly KubeObject[]): Promise<void> {
    const deployment = objects.find(({ kind }) => kind === 'Deployment')
    if (deployment === undefined) return
    const withToken = within(...pod)(deployment, { automountServiceAccountToken: true })
    await waitFor('the policies', async () => (await apply(call, withToken, dryRun)).status === 403)
  }

  /** Resolves with what becomes of an object of the operator. The API server validates it before the policies. */
  async function outcomeOf(object: KubeObject, unchanged: KubeObject): Promise<string> {
    const { status, body } = await apply(operator, object, dryRun)
    const said = JSON.stringify(body)
    if (status === 403 && said.includes('ValidatingAdmissionPolicy')) return 'denied'
    if (status >= 400) return said.includes('is invalid') ? 'never' : said
    const { body: same } = await apply(operator, unchanged, dryRun)
    return isDeepStrictEqual(specOf(body), specOf(same)) ? 'never' : `${status}: ${said}`
  }

  async function assertDenied(base: KubeObject, tables: readonly Table[]): Promise<void> {
    const wrong: string[] = []
    for (const { type, attempts, with: make, together = [], never = [] } of tables) {
      const alone = Object.entries(attempts).flatMap(([field, values]) =>
        typeof values === 'string' ? [] : values.map(value => ({ [field]: value })),
      )
      const tries = [...alone, ...together].map(async fields => {
        const outcome = await outcomeOf(make(base, fields), base)
        const expected = Object.keys(fields).some(field => never.includes(field)) ? 'never' : 'denied'
        if (outcome !== expected) wrong.push(`${type} ${JSON.stringify(fields)}: ${outcome.slice(0, 100)}`)
      })
      await Promise.all(tries)
    }
    assert.deepEqual(wrong, [])
  }

  it('are tested with all fields of pods and Services', async () => {
    const schemas = await Promise.all(['apis/apps/v1', 'api/v1'].map(schemasOf))
    const known = Object.assign({}, ...schemas)
    for (const { type, attempts, together = [] } of [...podTables, ...serviceTables]) {
      const { properties } = known[`io.k8s.api.core.v1.${type}`] ?? assert.fail(type)
      assert.deepEqual(Object.keys(attempts).sort(), Object.keys(properties).sort(), type)
      const withOthers = Object.keys(attempts).filter(field => attempts[field] === 'together')
      assert.deepEqual(
        withOthers.filter(field => !together.some(fields => field in fields)),
        [],
        type,
      )
    }
  })

  it('deny each field of pods that the operator does not make', () => assertDenied(rateLimit(), podTables))

  it('deny each field of Services that the operator does not make', () =>
    assertDenied(find('Service', 'tollway-ratelimit-http'), serviceTables))

  it('deny other writes that harm other objects or give rights', async () => {
    const wrong: string[] = []
    for (const [what, object] of Object.entries(otherAttempts(find))) {
      const outcome = await outcomeOf(object, object)
      if (outcome !== 'denied') wrong.push(`${what}: ${outcome.slice(0, 500)}`)
    }
    assert.deepEqual(wrong, [])
  })

  it('deny all objects of services that the values do not enable', async () => {
    const name = 'limits'
    const objects = render({ name, set: ['redis.bundled.enabled=true'] })
    await installRights(api, objects)
    const operator = api.callAs(await tokenFor(api, `${name}-operator`))
    await policiesInForce(operator, madeObjects(objects, name))
    const others = madeObjects(render({ name, values }), name).filter(
      ({ metadata }) => !metadata.name.startsWith(`${name}-ratelimit`),
    )
    const statuses = await Promise.all(others.map(async object => (await apply(operator, object)).status))
    assert.deepEqual(new Set(statuses), new Set([403]))
    assert.ok(others.length >= 10)
  })

  it('deny a change of an object as they deny its creation', async () => {
    for (const object of made) assert.ok((await apply(operator, object)).status < 300)
    await assertDenied(rateLimit(), podTables)
    await assertDenied(find('Service', 'tollway-ratelimit-http'), serviceTables)
  })

  it('keep what other accounts added', async () => {
    const restarted = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' }
    const changes = [
      within('spec', 'template', 'metadata', 'annotations')(rateLimit(), restarted),
      within('spec')(rateLimit(), { replicas: 40 }),
      within()(rateLimit('ServiceAccount'), { imagePullSecrets: [{ name: 'of-the-platform' }] }),
    ]
    for (const changed of changes) {
      assert.equal((await apply(api.call, changed, { fieldManager: 'somebody' })).status, 200)
      const { status, body } = await apply(operator, rateLimit(changed.kind))
      assert.equal(status, 200, JSON.stringify(body))
    }
  })

  it('limit every resource that the roles of the operator let it write', () => {
    const objects = render({ values: `${values}\nsecretNamespaces: [shop]` })
    const judged = objects
      .filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
      .flatMap(policy => (specOf(policy) as JudgedSpec).matchConstraints.resourceRules)
      .flatMap(({ resources }) => resources)
    const written = objects
      .filter(({ kind, metadata }) => /Role$/.test(kind) && !/-(view|edit)$/.test(metadata.name))
      .flatMap(role => role['rules'] as readonly Rule[])
      .filter(({ verbs = [] }) => verbs.some(verb => ['create', 'update', 'patch'].includes(verb)))
      .flatMap(({ resources }) => resources)
    const others = new Set(written.filter(resource => !judged.includes(resource)))
    assert.deepEqual([...others].sort(), withoutPolicy)
  })

  it('admit pods with many parts, within the limits of the API server for expressions', async () => {
    const some = (count: number) => Array.from({ length: count }, (_, index) => index)
    const env = some(64).map(index => ({ name: `VARIABLE_${index}`, value: 'x'.repeat(100) }))
    const mounts = some(32).map(index => ({ name: `claim-${index}`, mountPath: `/claims/${index}` }))
    const containers = (name: string) =>
      some(3).map(index => ({ name: `${name}-${index}`, image: name, env, volumeMounts: mounts }))
    const pods = {
      extraEnv: env,
      extraVolumes: mounts.map(({ name }) => ({ name, persistentVolumeClaim: { claimName: name } })),
      extraVolumeMounts: mounts,
      initContainers: containers('first'),
      extraContainers: containers('beside'),
    }
    const name = 'many'
    const values = JSON.stringify({ redis: { url: 'redis:6379' }, rateLimit: { pods } })
    const objects = render({ name, values })
    await installRights(api, objects)
    const operator = api.callAs(await tokenFor(api, `${name}-operator`))
    const made = madeObjects(objects, name)
    await policiesInForce(operator, made)
    for (const object of made) {
      const { status, body } = await apply(operator, object)
      assert.ok(status < 300, JSON.stringify(body).slice(0, 500))
    }
  })

  it('admit every object that the operator makes from each golden case', async () => {
    const installed = []
    for (const { input, name } of cases) {
      const objects = render({ name, values: readFileSync(join(folder, input), 'utf8') })
      await installRights(api, objects)
      installed.push({ name, objects: madeObjects(objects, name) })
    }
    const refused: string[] = []
    for (const { name, objects } of installed) {
      const operator = api.callAs(await tokenFor(api, `${name}-operator`))
      await policiesInForce(operator, objects)
      // The second apply of a Deployment changes what exists.
      for (const object of [...objects, ...objects.filter(({ kind }) => kind === 'Deployment')]) {
        const { status, body } = await apply(operator, object)
        if (status >= 300) refused.push(`${name}: ${object.kind}: ${JSON.stringify(body).slice(0, 500)}`)
      }
    }
    assert.deepEqual(refused, [])
  })

  async function schemasOf(path: string): Promise<object> {
    const { body } = await api.call('GET', `/openapi/v3/${path}`)
    return (body as { components: { schemas: object } }).components.schemas
  }
})
