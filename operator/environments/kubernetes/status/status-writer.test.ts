import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import { StatusWriter } from './status-writer.ts'
import type { StoredResource, StoredStatus } from './stored-resource.ts'

const ready = {
  type: 'Ready',
  status: 'True',
  reason: 'Enforced',
  message: '2 of 2 processes enforce it',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00.000Z',
} as const

function statusOf(activeStreams: number, more: Partial<ResourceStatus> = {}): ResourceStatus {
  return {
    kind: 'AnimationStreamRoute',
    namespace: 'shop',
    name: 'kiosk',
    uid: 'uid',
    origin: 'shop/kiosk',
    observedGeneration: 1,
    subject: 'kiosk-',
    counts: { activeStreams, consumers: 1 },
    enforced: '2/2',
    problems: [],
    conditions: [ready],
    ...more,
  }
}

/** Starts a writer against an API server that stores one status, and whose watch reports each write. */
function start(t: TestContext, loadMs: number, fail: () => Error | undefined = () => undefined) {
  let stored: StoredResource = {
    metadata: { name: 'kiosk', namespace: 'shop', uid: 'uid', resourceVersion: '1' },
  }
  const written: StoredStatus[] = []
  const writer = new StatusWriter({
    stored: () => stored,
    keepsLastGood: () => true,
    loads: ['activeStreams', 'consumers'],
    loadMs,
    async apply(_, status) {
      const error = fail()
      if (error) throw error
      written.push(status)
      const resourceVersion = `${Number(stored.metadata.resourceVersion) + 1}`
      stored = { metadata: { ...stored.metadata, resourceVersion }, status }
      setImmediate(() => writer.recheck('uid'))
      return stored
    },
    mayWrite: () => true,
    onTransition: () => {},
    onError: (name, error) => assert.equal(error, fail(), `${name}: ${error}`),
    random: Math.random,
  })
  t.after(() => writer.stop())
  return { writer, written }
}

test('changes of loads alone are merged into one write with the newest of them', async t => {
  const { writer, written } = start(t, 150)
  writer.write([statusOf(0)])
  await waitFor('the first write', async () => written.length === 1)
  for (let streams = 1; streams <= 20; streams++) {
    writer.write([statusOf(streams)])
    await new Promise(setImmediate)
  }
  assert.equal(written.length, 1)
  await waitFor('the next write', async () => written.length === 2)
  assert.equal(written[1]?.['activeStreams'], 20)
})

test('another change is written immediately, together with the loads', async t => {
  const { writer, written } = start(t, 600_000)
  writer.write([statusOf(0)])
  await waitFor('the first write', async () => written.length === 1)
  writer.write([statusOf(5)])
  writer.write([statusOf(6, { observedGeneration: 2 })])
  await waitFor('the next write', async () => written.length === 2)
  assert.equal(written[1]?.['activeStreams'], 6)
  assert.equal(written[1]?.observedGeneration, 2)
})

test('the stored fields about shares stay while they are unknown, and go with the last shared limit', async t => {
  const { writer, written } = start(t, 600_000)
  const quota = { members: 3, converged: true }
  writer.write([statusOf(0, { sharing: { quota } })])
  await waitFor('the first write', async () => written.length === 1)
  writer.write([statusOf(0, { sharing: 'unknown', observedGeneration: 2 })])
  await waitFor('the next write', async () => written.length === 2)
  writer.write([statusOf(0, { observedGeneration: 2 })])
  await waitFor('the last write', async () => written.length === 3)
  assert.deepEqual(
    written.map(status => status['quota']),
    [quota, quota, undefined],
  )
})

test('the event of a write does not cause another write of loads', async t => {
  const { writer, written } = start(t, 600_000)
  writer.write([statusOf(0)])
  await waitFor('the first write', async () => written.length === 1)
  writer.write([statusOf(1)])
  for (let look = 0; look < 20; look++) {
    writer.recheck('uid')
    await new Promise(setImmediate)
  }
  assert.equal(written.length, 1)
})

test('the error of a retried write is a problem until the write succeeds', async t => {
  let error: Error | undefined = new Error('not in this hour')
  const { writer, written } = start(t, 0, () => error)
  assert.equal(writer.problem(), '')
  writer.write([statusOf(0)])
  await waitFor('the problem', async () => writer.problem() !== '')
  assert.equal(writer.problem(), 'write a status: not in this hour; it is repeated')
  error = undefined
  await waitFor('the end', async () => writer.problem() === '')
  assert.equal(written.length, 1)
})

test('the error of a write is no longer a problem once the resource is deleted', async t => {
  const { writer } = start(t, 0, () => rejected)
  writer.write([statusOf(0)])
  await waitFor('the problem', async () => writer.problem() !== '')
  writer.write([])
  assert.equal(writer.problem(), '')
})

const rejected = new Error('rejected')
