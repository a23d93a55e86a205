import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { apply, eventually, kubectl, type Pod, read, restricted } from './cluster.ts'

/**
 * Runs each image of `make images` alone in a pod with the strictest settings: an arbitrary user, no
 * capability, a read-only root. The nodes have the images already.
 */
const namespace = 'tollway-images'
const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

/** The files that are mounted at /configuration/config, by the name of their server. */
const files: Readonly<Record<string, string>> = {
  ratelimit:
    'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n',
  envoy: 'admin: {address: {socket_address: {address: 0.0.0.0, port_value: 9901}}}\n',
}

interface Server {
  readonly name: string
  readonly image: string
  readonly port: number
  /** The path of readiness over HTTP; without it a connection is enough. */
  readonly path?: string
  readonly env?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
}

const servers: readonly Server[] = [
  {
    name: 'ratelimit',
    image: 'tollway/ratelimit:dev',
    port: 8080,
    path: '/healthcheck',
    env: {
      BACKEND_TYPE: 'memory',
      LOG_LEVEL: 'info',
      USE_STATSD: 'false',
      RUNTIME_ROOT: '/configuration',
      RUNTIME_IGNOREDOTFILES: 'true',
    },
  },
  {
    name: 'broker',
    image: 'tollway/broker:dev',
    port: 9090,
    path: '/healthcheck',
    env: { LOG_LEVEL: 'info', METRICS_PORT: '9090' },
  },
  { name: 'redis', image: 'tollway/test-redis:dev', port: 6379 },
  { name: 'memcached', image: 'tollway/test-memcached:dev', port: 11_211 },
  {
    name: 'envoy',
    image: 'tollway/test-envoy:dev',
    port: 9901,
    path: '/ready',
    args: ['-c', '/configuration/config/envoy.yaml'],
  },
  { name: 'postgres', image: 'tollway/test-postgres:dev', port: 5432, env: { POSTGRES_PASSWORD: 'test' } },
]

function podOf(name: string, container: object): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      automountServiceAccountToken: false,
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name,
          imagePullPolicy: 'Never',
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          volumeMounts: [
            { name: 'tmp', mountPath: '/tmp' },
            { name: 'configuration', mountPath: '/configuration/config' },
          ],
          ...container,
        },
      ],
      volumes: [
        { name: 'tmp', emptyDir: {} },
        { name: 'configuration', configMap: { name, optional: true } },
      ],
    },
  }
}

function containerOf({ image, port, path, env = {}, args }: Server): object {
  const probe = path === undefined ? { tcpSocket: { port } } : { httpGet: { port, path } }
  return {
    image,
    ...(args === undefined ? {} : { args }),
    env: Object.entries(env).map(([name, value]) => ({ name, value })),
    readinessProbe: { periodSeconds: 1, ...probe },
  }
}

describe('images in a cluster', { skip, timeout: 300_000 }, () => {
  before(async () => {
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: restricted } })
    for (const [name, text] of Object.entries(files)) {
      const data = { [`${name}.yaml`]: text }
      await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data })
    }
  })
  after(async () => {
    await kubectl('delete', 'namespace', namespace, '--wait=false')
  })

  for (const server of servers) {
    it(`${server.name} becomes ready`, async () => {
      await apply(podOf(server.name, containerOf(server)))
      await kubectl('-n', namespace, 'wait', '--for=condition=Ready', `pod/${server.name}`, '--timeout=60s')
    })
  }

  it('ratelimit answers calls', async () => {
    const pod = await read<Pod>(namespace, 'pods/ratelimit')
    const body = JSON.stringify({ domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] })
    const ask = async () => {
      const answer = await fetch(`http://${pod?.status.podIP}:8080/json`, { method: 'POST', body })
      return answer.status
    }
    assert.deepEqual([await ask(), await ask()], [200, 429])
  })

  for (const name of ['ratelimit', 'broker']) {
    it(`${name} serves soon after its start`, async t => {
      const log = await kubectl('-n', namespace, 'logs', name)
      const [, servingAt = ''] = /time=(\S+) .*msg="start service"/.exec(log) ?? []
      const startMs = Date.parse(servingAt) - Number(await inPod(name, 'node', '--print', whenStarted))
      t.diagnostic(`${name} served ${Math.round(startMs)} ms after its start`)
      // The start takes a second on an idle machine; this one runs a whole cluster.
      assert.ok(startMs < 10_000, `${startMs} ms`)
    })
  }

  it('an image has its programs, and no shell', async () => {
    assert.match(await inPod('ratelimit', 'node', '--version'), /^v24\./)
    await assert.rejects(inPod('ratelimit', 'sh', '-c', 'true'), /executable file not found|no such file/)
  })

  it('names of the cluster are resolved', async () => {
    const lookup =
      "dns.promises.lookup('kubernetes.default.svc.cluster.local').then(({ address }) => address)"
    assert.match(
      await inPod('ratelimit', 'node', '--eval', `${lookup}.then(console.log)`),
      /^\d+\.\d+\.\d+\.\d+$/m,
    )
  })

  it('tollway is the program of the operator', async () => {
    await apply(podOf('tollway', { image: 'tollway/operator:dev', args: ['--help'] }))
    const ended = async () => (await read<Phased>(namespace, 'pods/tollway'))?.status.phase === 'Succeeded'
    await eventually('the command to end', ended)
    assert.match(await kubectl('-n', namespace, 'logs', 'tollway'), /^Usage: tollway COMMAND/)
  })
})

const inPod = (pod: string, ...command: readonly string[]) =>
  kubectl('-n', namespace, 'exec', pod, '--', ...command)

/**
 * Returns the start of the container's first process, in milliseconds since the epoch, with a precision of a
 * hundredth of a second.
 */
const whenStarted = `
const read = path => fs.readFileSync(path, 'latin1')
const ticks = Number(read('/proc/1/stat').split(') ')[1].split(' ')[19])
Date.now() - (Number(read('/proc/uptime').split(' ')[0]) - ticks / 100) * 1000
`

interface Phased {
  readonly status: { readonly phase: string }
}
