import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from 'js-yaml'
import type { KubeObject } from '../api/kube-object.ts'
import { observePods } from './observe-pod.ts'

const spec = {
  containers: [
    {
      name: 'ratelimit',
      image: 'tollway/ratelimit:dev',
      ports: [
        { name: 'grpc', containerPort: 8081 },
        { name: 'http', containerPort: 8080 },
      ],
      readinessProbe: { httpGet: { path: '/healthcheck', port: 'http' } },
    },
  ],
}

const pod = (status: unknown, metadata: object = {}): KubeObject => ({
  metadata: { name: 'ratelimit-1', uid: 'u1', creationTimestamp: '2026-01-01T00:00:00Z', ...metadata },
  spec,
  status,
})
const container = (fields: string) => load(`{containerStatuses: [{image: tollway/ratelimit:dev, ${fields}}]}`)
const killed =
  'lastState: {terminated: {exitCode: 137, reason: OOMKilled, finishedAt: "2026-01-01T12:00:05Z"}}'

/** Each row: the status of a pod, and the expected reason. */
const reasons: readonly (readonly [status: unknown, reason: string])[] = [
  [{}, 'starting'],
  [load('{conditions: [{type: Ready, status: "True"}]}'), ''],
  [
    load('{conditions: [{type: PodScheduled, status: "False", message: 0/3 nodes are available}]}'),
    'no node takes it: 0/3 nodes are available',
  ],
  [container('state: {waiting: {reason: ContainerCreating}}'), 'starting'],
  [
    container('state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image "a"}}'),
    'the image tollway/ratelimit:dev cannot be pulled: ImagePullBackOff',
  ],
  [
    container('state: {waiting: {reason: CreateContainerConfigError, message: no such thing}}'),
    'CreateContainerConfigError: no such thing',
  ],
  [
    container(
      `state: {waiting: {reason: CrashLoopBackOff, message: back-off 1m20s restarting failed container=a}}, ${killed}`,
    ),
    'exited with code 137 (OOMKilled), again at 2026-01-01T12:01:25Z',
  ],
  [
    container(
      `state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, reason: Error}}`,
    ),
    'exited with code 1, again after a wait',
  ],
  [container('state: {waiting: {reason: CrashLoopBackOff}}'), 'exited with code unknown, again after a wait'],
  [container('state: {terminated: {exitCode: 2, reason: Error}}'), 'exited with code 2'],
  [
    load(`
      initContainerStatuses:
        - {name: done, ready: true, state: {terminated: {exitCode: 0}}}
        - {name: migrate, image: migrate:1, state: {waiting: {reason: ErrImagePull, message: not found}}}
      containerStatuses: [{name: ratelimit, ready: false, state: {waiting: {reason: PodInitializing}}}]`),
    'the image migrate:1 cannot be pulled: not found',
  ],
  [
    load(`
      containerStatuses:
        - {name: log-shipper, ready: true, started: true, state: {running: {}}}
        - {name: ratelimit, ready: false, state: {terminated: {exitCode: 3}}}`),
    'exited with code 3',
  ],
  [container('state: {running: {}}, started: false, ready: false'), 'starting'],
  [
    container('state: {running: {}}, started: true, ready: false'),
    'not ready: GET /healthcheck on the port http is not answered with 200',
  ],
  [
    {
      ...(container('state: {running: {}}, started: true, ready: true') as object),
      conditions: [{ type: 'Ready', status: 'False', message: 'the node is gone' }],
    },
    'not ready: the node is gone',
  ],
]

test('a pod that is not ready has a reason', () => {
  for (const [status, reason] of reasons) {
    const [replica] = observePods([pod(status)])
    assert.deepEqual([replica?.ready, replica?.reason], [reason === '', reason])
  }
})

const specWithSecret = {
  containers: [
    {
      name: 'payments',
      env: [
        { name: 'URL_FILE', value: '/etc/other' },
        { name: 'DATABASE_URL_FILE', value: '/etc/tollway/database/url' },
      ],
      volumeMounts: [{ name: 'database', mountPath: '/etc/tollway/database' }],
    },
  ],
  volumes: [{ name: 'database', secret: { secretName: 'payments-database' } }],
}
const ofSecret = { of: 'secret', secret: 'payments-database' }
const noFile = "DATABASE_URL_FILE: ENOENT: no such file or directory, open '/etc/tollway/database/url'"
const refused = 'connect ECONNREFUSED 10.0.0.1:5432'

/** Returns the status of a container that ended with this exit code and this message. */
const endedWith = (exitCode: number, message: string, restartCount = 1) => ({
  name: 'payments',
  image: 'payments:1',
  restartCount,
  state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } },
  lastState: { terminated: { exitCode, message } },
})
const pulling = (reason: string, message: string) => ({
  ...{ name: 'payments', image: 'payments:1', restartCount: 0, state: { waiting: { reason, message } } },
})
const pullOf = (error: string) =>
  `failed to pull and unpack image "docker.io/payments:1": failed to resolve reference "docker.io/payments:1": ${error}`
const cannotPull = (error: string) =>
  `the image payments:1 cannot be pulled: failed to resolve reference "docker.io/payments:1": ${error}`

/** Each row: the status of a container, and the expected obstacle. */
const obstacles: readonly (readonly [status: object, obstacle: object | undefined])[] = [
  [
    endedWith(78, `${noFile}\n`),
    { ...ofSecret, cause: 'there is no Secret payments-database with the key url' },
  ],
  [
    endedWith(1, `level=error msg="start service failed" reason="${noFile}"`),
    { ...ofSecret, cause: 'there is no Secret payments-database with the key url' },
  ],
  [
    endedWith(78, 'DATABASE_URL_FILE: the value is not allowed: postgres://…'),
    {
      ...ofSecret,
      cause:
        'the key url of the Secret payments-database is not allowed: ' +
        'DATABASE_URL_FILE: the value is not allowed: postgres://',
    },
  ],
  [endedWith(78, 'PORT: "x" is not allowed'), { of: 'settings', cause: 'PORT: "x" is not allowed' }],
  [endedWith(78, ''), { of: 'settings', cause: 'it rejects its settings' }],
  // States in the first seconds of an installation: one failure, a database that is late, a container that
  // runs again.
  [endedWith(78, noFile, 0), undefined],
  [
    endedWith(1, `level=error msg="start service failed" reason="no connection to the database: ${refused}"`),
    undefined,
  ],
  [endedWith(1, 'level=warn msg="DATABASE_URL_FILE: changed"'), undefined],
  [{ ...endedWith(78, noFile), state: { running: {} } }, undefined],
  [pulling('ContainerCreating', ''), undefined],
  [
    pulling('ErrImagePull', pullOf('docker.io/payments:1: not found')),
    { of: 'image', cause: cannotPull('docker.io/payments:1: not found') },
  ],
  [
    pulling(
      'ImagePullBackOff',
      `Back-off pulling image "payments:1": ErrImagePull: ${pullOf('dial tcp: lookup r: no such host')}`,
    ),
    { of: 'image', cause: cannotPull('dial tcp: lookup r: no such host') },
  ],
  [
    pulling('ErrImagePull', pullOf('i/o timeout')),
    { of: 'image', attempt: 'failed', cause: cannotPull('i/o timeout') },
  ],
  [
    pulling('ImagePullBackOff', pullOf('i/o timeout')),
    { of: 'image', attempt: 'waiting', cause: cannotPull('i/o timeout') },
  ],
  [
    pulling('ErrImageNeverPull', 'Container image "payments:1" is not present with pull policy of Never'),
    { of: 'image', cause: 'the image payments:1 cannot be pulled: is not present with pull policy of Never' },
  ],
  [
    pulling('CreateContainerConfigError', 'secret "mine" not found'),
    { of: 'pod', cause: 'CreateContainerConfigError: secret "mine" not found' },
  ],
]

test('an obstacle is what only a change by a person removes', () => {
  for (const [status, obstacle] of obstacles) {
    const [replica] = observePods([{ ...pod({ containerStatuses: [status] }), spec: specWithSecret }])
    assert.deepEqual(replica?.obstacle, obstacle, JSON.stringify(status))
  }
})

test('the addresses are those of the pod, and the restarts those of its container', () => {
  const [v4, v6] = observePods([
    pod({ podIP: '10.0.0.1', containerStatuses: [{ restartCount: 3 }] }),
    pod({ podIP: 'fd00::1' }, { name: 'ratelimit-2', uid: 'u2' }),
  ])
  assert.deepEqual(v4?.addresses, { grpc: '10.0.0.1:8081', http: 'http://10.0.0.1:8080' })
  assert.deepEqual(v6?.addresses, { grpc: '[fd00::1]:8081', http: 'http://[fd00::1]:8080' })
  assert.deepEqual([v4?.uid, v4?.restarts, v6?.restarts], ['u1', 3, 0])
})

test('the oldest pods come first, and pods that have ended or are ending are left out', () => {
  const at = (name: string, creationTimestamp: string, more: object = {}, status: object = {}) =>
    pod(status, { name, creationTimestamp, ...more })
  const pods = [
    at('c', '2026-01-02T00:00:00Z'),
    at('b', '2026-01-01T00:00:00Z'),
    at('a', '2026-01-02T00:00:00Z'),
    at('ending', '2026-01-01T00:00:00Z', { deletionTimestamp: '2026-01-03T00:00:00Z' }),
    at('evicted', '2026-01-01T00:00:00Z', {}, { phase: 'Failed', reason: 'Evicted' }),
  ]
  assert.deepEqual(
    observePods(pods).map(({ name }) => name),
    ['b', 'a', 'c'],
  )
})
