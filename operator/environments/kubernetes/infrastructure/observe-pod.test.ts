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

/** A pod's status, and the expected reason. */
const reasons: readonly (readonly [status: unknown, reason: string])[] = [
  [{}, 'starting'],
  [load('{conditions: [{type: Ready, status: "True"}]}'), ''],
  [
    load('{conditions: [{type: PodScheduled, status: "False", message: 0/3 nodes are available}]}'),
    'no node takes it: 0/3 nodes are available',
  ],
  [container('state: {waiting: {reason: ContainerCreating}}'), 'starting'],
  [
    container('state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image}}'),
    'the image tollway/ratelimit:dev cannot be had: ImagePullBackOff: Back-off pulling image',
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
    'the image migrate:1 cannot be had: ErrImagePull: not found',
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
