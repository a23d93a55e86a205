import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../api/kube-object.ts'
import { createContestedObjects } from './contested-objects.ts'

const minuteMs = 60_000

function open() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs }
  const begun: string[] = []
  const contestedObjects = createContestedObjects(clock, ({ message }) => begun.push(message))
  return { clock, begun, contestedObjects }
}

const service: KubeObject = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } }
const changedBy = (
  ...managers: readonly (readonly [manager: string, time: string, subresource?: string])[]
) => ({
  ...service,
  metadata: {
    name: 'a',
    uid: 'one',
    managedFields: managers.map(([manager, time, subresource]) => ({ manager, time, subresource })),
  },
})

test('a program that changes an object every five minutes is reported once, until it stops', () => {
  const { clock, begun, contestedObjects } = open()
  for (let time = 0; time < 6; time++) {
    clock.nowMs = time * 5 * minuteMs
    contestedObjects.changed(service, changedBy(['gitops', '2026-01-01T00:00:00Z']))
    assert.equal(contestedObjects.current().length, time < 2 ? 0 : 1)
  }
  const [message = ''] = begun
  assert.equal(begun.length, 1)
  assert.match(
    message,
    /^Service "a" was changed 3 times .*: the manager "gitops" changes it\. Make it leave/,
  )
  assert.equal(contestedObjects.current()[0]?.object.metadata.uid, 'one')
  clock.nowMs += 10 * minuteMs
  assert.deepEqual(contestedObjects.current(), [])
})

test('three changes within an hour are not reported', () => {
  const { clock, begun, contestedObjects } = open()
  for (const minutes of [0, 20, 40]) {
    clock.nowMs = minutes * minuteMs
    contestedObjects.changed(service, undefined)
  }
  assert.deepEqual([begun, contestedObjects.current()], [[], []])
})

const culprits: readonly [KubeObject | undefined, string][] = [
  [undefined, 'another program deletes it'],
  [changedBy(['tollway', '3'], ['old', '1'], ['new', '2']), 'the manager "new" changes it'],
  [changedBy(['new', '1'], ['kube-controller-manager', '2']), 'the manager "new" changes it'],
  [changedBy(['kube-controller-manager', '2']), 'the manager "kube-controller-manager" changes it'],
  [changedBy(['scaler', '3', 'scale'], ['new', '1']), 'the manager "new" changes it'],
  [changedBy(['tollway', '1'], ['tollway-replicas', '2']), 'the manager "unknown" changes it'],
]
for (const [live, expected] of culprits) {
  test(`a report names ${expected} as the author of changes`, () => {
    const { begun, contestedObjects } = open()
    for (let time = 0; time < 3; time++) contestedObjects.changed(service, live)
    assert.ok(begun[0]?.includes(`: ${expected}.`), begun[0])
  })
}

test('an operator that no longer leads reports nothing', () => {
  const { contestedObjects } = open()
  for (let time = 0; time < 3; time++) contestedObjects.changed(service, undefined)
  contestedObjects.clear()
  assert.deepEqual(contestedObjects.current(), [])
})
