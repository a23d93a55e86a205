import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '@tollway/chassis/settings.ts'
import { settings } from '../settings.ts'
import { findWorkerProblems, toWorkerSettings } from './worker-settings.ts'

function read(env: Readonly<Record<string, string>>) {
  const found = readSettings(settings, env, () => '')
  assert.ok('value' in found)
  return found.value
}

const cases: readonly [string, Readonly<Record<string, string>>, readonly string[]][] = [
  ['one worker may use every backend', { BACKEND_TYPE: 'memory', GRPC_UDS: '/run/a.sock', PORT: '0' }, []],
  ['several share Redis and two ports', { WORKERS: '64' }, []],
  [
    'several share neither memory nor a unix socket',
    { WORKERS: '2', BACKEND_TYPE: 'memory', GRPC_UDS: '/run/a.sock' },
    [
      'WORKERS: "2" is not allowed with BACKEND_TYPE=memory, which counts in each process separately; allowed: 1',
      'WORKERS: "2" is not allowed with GRPC_UDS, since a socket belongs to one process; allowed: 1',
    ],
  ],
  [
    'several need ports that are fixed',
    { WORKERS: '3', GRPC_PORT: '0', PORT: '0' },
    [
      'GRPC_PORT: "0" is not allowed with 3 WORKERS, which would each have a different port; allowed: 1 to 65535',
      'PORT: "0" is not allowed with 3 WORKERS, which would each have a different port; allowed: 1 to 65535',
    ],
  ],
]

for (const [rule, env, expected] of cases) {
  test(rule, () => {
    const problems = findWorkerProblems(read(env))
    assert.deepEqual(
      problems.map(({ name, message }) => `${name}: ${message}`),
      expected,
    )
  })
}

test('a worker has its part of limits and recordings, shares the ports and reports its number', () => {
  const env = { WORKERS: '4', BACKEND_FAILURE_LOCAL_SHARE: '0.5', CONFIG_GRPC_XDS_NODE_METADATA: 'uid:1' }
  const { reusePort, backendFailureLocalShare, decisionRecordingBytes, xdsNodeMetadata } = toWorkerSettings(
    read(env),
    3,
  )
  assert.equal(decisionRecordingBytes, 4 * 1024 * 1024)
  const recordingOf = (bytes: string) =>
    toWorkerSettings(read({ ...env, DECISION_RECORDING_BYTES: bytes }), 0).decisionRecordingBytes
  assert.deepEqual([recordingOf('0'), recordingOf('3')], [0, 1])
  assert.equal(reusePort, true)
  assert.equal(backendFailureLocalShare, 0.125)
  assert.deepEqual(Object.fromEntries(xdsNodeMetadata), { uid: '1', worker: '3', workers: '4' })
})
