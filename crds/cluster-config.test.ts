import assert from 'node:assert/strict'
import { test } from 'node:test'
import { validateClusterConfig } from './cluster-config.ts'

const urlSecret = { name: 'redis', key: 'url' }
const rateLimit = { backend: { urlSecret } }
const streamLog = { type: 'redis', urlSecret }

test('a config with only a Redis address has defaults, and does not run the broker', () => {
  const judged = validateClusterConfig({ rateLimit })
  assert.ok('value' in judged, JSON.stringify(judged))
  const { broker, rateLimit: plan } = judged.value
  assert.equal(plan.enabled, true)
  assert.equal(broker.enabled, false)
  assert.equal(broker.grpcPort, 8082)
  assert.equal(broker.pods.image, 'tollway/broker:dev')
})

/** Configurations whose fields contradict each other, and the problem that is reported. */
const wrong: readonly [unknown, string][] = [
  [{}, 'rateLimit.backend.urlSecret.name: is required: the name of the Secret with the address of Redis'],
  [
    { rateLimit: { backend: { type: 'memory' } } },
    'rateLimit.backend.type: "memory" is not allowed with 2 replicas, because each pod counts separately; use redis, or set rateLimit.replicas to 1',
  ],
  [
    { rateLimit: { ...rateLimit, autoscaling: { enabled: true, minReplicas: 4, maxReplicas: 3 } } },
    'rateLimit.autoscaling.minReplicas: 4 must be at most maxReplicas, 3',
  ],
  [
    { rateLimit: { ...rateLimit, pods: { maxUnavailable: '0' } } },
    'rateLimit.pods.maxUnavailable: "0" is not allowed, because it prevents the drain of nodes; expected at least 1',
  ],
  [
    { rateLimit: { ...rateLimit, autoscaling: { enabled: true, targetCpuPercent: 0 } } },
    'rateLimit.autoscaling.metrics: at least one metric is required while targetCpuPercent is 0',
  ],
  [
    { rateLimit: { ...rateLimit, pods: { extraVolumes: [{ name: 'a', hostPath: { path: '/' } }] } } },
    'rateLimit.pods.extraVolumes[0].hostPath: no such field; allowed here: name, configMap, emptyDir, persistentVolumeClaim, secret',
  ],
  [
    { rateLimit, broker: { enabled: true } },
    'broker.streamLog.urlSecret.name: is required: the name of the Secret with the address of Redis',
  ],
  [
    { rateLimit, broker: { enabled: true, replicas: 3, streamLog: { type: 'memory' } } },
    'broker.streamLog.type: "memory" is not allowed with 3 replicas, because consumers of one pod do not receive the streams of another; use redis, or set broker.replicas to 1',
  ],
  [
    {
      rateLimit,
      broker: { enabled: true, replicas: 1, autoscaling: { enabled: true }, streamLog: { type: 'memory' } },
    },
    'broker.streamLog.type: "memory" is not allowed with autoscaling, because consumers of one pod do not receive the streams of another; use redis',
  ],
  [
    { rateLimit, broker: { enabled: true, streamLog, pods: { maxUnavailable: '0' } } },
    'broker.pods.maxUnavailable: "0" is not allowed, because it prevents the drain of nodes; expected at least 1',
  ],
  [
    { rateLimit, broker: { enabled: true, streamLog, admin: { enabled: true } } },
    'broker.admin.tokenSecret.name: is required: the name of the Secret with the tokens',
  ],
  [
    { rateLimit, payments: { enabled: true } },
    'payments.database.urlSecret.name: is required: the name of the Secret with the address of PostgreSQL',
  ],
  [
    { rateLimit, payments: { baseUrl: 'pay.example.org' } },
    'payments.baseUrl: "pay.example.org" does not have the form ^(https?://[^\\s?#]+)?$',
  ],
  [
    { rateLimit: { ...rateLimit, pods: { extraEnv: [{ name: 'A', value: 5 }] } } },
    'rateLimit.pods.extraEnv[0].value: 5 is not allowed; expected a string of at most 131072 characters, in quotes: "5"',
  ],
  [
    { rateLimit: { ...rateLimit, pods: { nodeSelector: { rack: 5 } } } },
    'rateLimit.pods.nodeSelector.rack: 5 is not allowed; expected a string of at most 8192 characters, in quotes: "5"',
  ],
  [
    { rateLimit, lease: { renewDeadlineSeconds: 8 } },
    'lease.renewDeadlineSeconds: 8 must be below lease.durationSeconds, 8',
  ],
]

test('a contradiction is reported with its field and a fix', () => {
  for (const [config, expected] of wrong) {
    const judged = validateClusterConfig(config)
    assert.ok('problems' in judged, expected)
    assert.deepEqual(
      judged.problems.map(({ path, message }) => `${path}: ${message}`),
      [expected],
    )
  }
})

test('no field is required for a service that is disabled', () => {
  const off = { enabled: false, replicas: 3 }
  const judged = validateClusterConfig({
    rateLimit: { ...off, backend: { type: 'memory' } },
    broker: { ...off, streamLog: { type: 'memory' } },
  })
  assert.ok('value' in judged, JSON.stringify(judged))
})
