import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../api/kube-object.ts'
import { createContests } from './contests.ts'

const minuteMs = 60_000

function open() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs }
  const begun: string[] = []
  const contests = createContests(clock, ({ message }) => begun.push(message))
  return { clock, begun, contests }
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
  const { clock, begun, contests } = open()
  for (let time = 0; time < 6; time++) {
    clock.nowMs = time * 5 * minuteMs
    contests.changed(service, changedBy(['gitops', '2026-01-01T00:00:00Z']))
    assert.equal(contests.current().length, time < 2 ? 0 : 1)
  }
  const [message = ''] = begun
  assert.equal(begun.length, 1)
  assert.match(
    message,
    /^Service "a" was changed 3 times .*: the manager "gitops" changes it\. Make it leave/,
  )
  assert.equal(contests.current()[0]?.object.metadata.uid, 'one')
  clock.nowMs += 10 * minuteMs
  assert.deepEqual(contests.current(), [])
})

test('three changes within an hour are not reported', () => {
  const { clock, begun, contests } = open()
  for (const minutes of [0, 20, 40]) {
    clock.nowMs = minutes * minuteMs
    contests.changed(service, undefined)
  }
  assert.deepEqual([begun, contests.current()], [[], []])
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
    const { begun, contests } = open()
    for (let time = 0; time < 3; time++) contests.changed(service, live)
    assert.ok(begun[0]?.includes(`: ${expected}.`), begun[0])
  })
}

test('an operator that no longer leads reports nothing', () => {
  const { contests } = open()
  for (let time = 0; time < 3; time++) contests.changed(service, undefined)
  contests.clear()
  assert.deepEqual(contests.current(), [])
})
