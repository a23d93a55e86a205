import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from 'js-yaml'
import type { Replica } from '../../../infrastructure/provider.ts'
import { describeProgress, readProgress } from './progress.ts'

/**
 * Each row: wanted | observedGeneration (the newest is 2), replicas, updated and ready of the status |
 * description.
 */
const table = `
  3 | 2 3 3 3 | 3 updated, 3 ready
  3 | 1 3 3 3 | 0 updated, 0 ready
  3 | 2 4 1 3 | 1 updated, 0 ready
  3 | 2 4 3 3 | 3 updated, 2 ready
  3 | 2 4 3 4 | 3 updated, 3 ready
  3 | 2 0 0 0 | 0 updated, 0 ready
  0 | 2 0 0 0 | 0 updated, 0 ready
`

const deployment = (wanted: number, status: object) => ({
  metadata: { name: 'tollway-ratelimit', generation: 2 },
  spec: { replicas: wanted },
  status,
})

test('only replicas of the newest template count as ready', () => {
  for (const line of table.trim().split('\n')) {
    const [wanted = '', numbers = '', expected] = line.split('|').map(part => part.trim())
    const [observedGeneration, replicas, updatedReplicas, readyReplicas] = numbers.split(' ').map(Number)
    const status = { observedGeneration, replicas, updatedReplicas, readyReplicas }
    const { updated, ready, message } = readProgress(deployment(Number(wanted), status), [])
    assert.equal(`${updated} updated, ${ready} ready`, expected, line)
    assert.equal(message === '', ready === Number(wanted), line)
  }
})

test('a Deployment of another revision counts as not applied', () => {
  const status = { observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 3 }
  const before = deployment(3, status)
  const applied = {
    ...before,
    metadata: { ...before.metadata, annotations: { 'tollway.dev/revision': 'b' } },
  }
  assert.equal(readProgress(applied, [], 'b').ready, 3)
  for (const stale of [before, applied]) {
    const { ready, message } = readProgress(stale, [], 'c')
    assert.deepEqual([ready, message], [0, 'the Deployment has not been applied yet'])
  }
})

test('the message is the cause of the delay', () => {
  const waiting = {
    name: 'p',
    uid: 'u',
    ready: false,
    reason: 'starting',
    restarts: 0,
    addresses: {},
  } as Replica
  const conditions = load(`[{type: ReplicaFailure, status: "True", message: "exceeded quota: few"}]`)
  const status = { observedGeneration: 2, replicas: 1, updatedReplicas: 1 }
  const messageOf = (more: object, replicas: readonly Replica[]) =>
    readProgress(deployment(2, { ...status, ...more }), replicas).message
  assert.equal(messageOf({ conditions }, [waiting]), 'exceeded quota: few')
  assert.equal(messageOf({}, [waiting]), 'p: starting')
  const late = load(`[{type: Progressing, status: "False", message: has timed out}]`)
  assert.equal(messageOf({ conditions: late }, []), 'has timed out')
  assert.equal(messageOf({}, []), 'replicas are being replaced')
})

test('the progress has the number of earlier replicas that take calls', () => {
  const waiting = { name: 'p', uid: 'u', ready: false, reason: 'no image', restarts: 0, addresses: {} }
  const describeStatus = (status: object) => describeProgress(readProgress(deployment(3, status), [waiting]))
  const observed = { observedGeneration: 2, updatedReplicas: 1 }
  const late = '0 of 3 pods of the newest version are ready'
  assert.equal(
    describeStatus({ ...observed, replicas: 4, readyReplicas: 3 }),
    `${late}, 3 earlier ones take calls: p: no image`,
  )
  assert.equal(
    describeStatus({ ...observed, replicas: 2, readyReplicas: 1 }),
    `${late}, 1 earlier one takes calls: p: no image`,
  )
  assert.equal(describeStatus({ ...observed, replicas: 1, readyReplicas: 0 }), `${late}: p: no image`)
  const notObserved = { observedGeneration: 1, updatedReplicas: 3, replicas: 3, readyReplicas: 3 }
  const unseen = 'its controller has not observed it yet'
  assert.equal(describeStatus(notObserved), `${late}, 3 earlier ones take calls: ${unseen}`)
  assert.equal(
    describeStatus({ observedGeneration: 2, updatedReplicas: 3, replicas: 3, readyReplicas: 3 }),
    '',
  )
})

test('the obstacle is that of the newest pod, or a rejection of pods that no end of a pod resolves', () => {
  const obstacle = { of: 'image', cause: 'no image' } as const
  const replica = { name: 'p', uid: 'u', ready: false, reason: 'no image', restarts: 0, addresses: {} }
  const [stuck, starting] = [{ ...replica, obstacle }, replica]
  const status = { observedGeneration: 2, replicas: 3, updatedReplicas: 3 }
  const progress = (replicas: readonly Replica[], more = {}) =>
    readProgress(deployment(3, { ...status, ...more }), replicas)
  assert.deepEqual(progress([starting, stuck]).obstacle, obstacle)
  assert.equal(progress([starting, stuck]).message, 'no image')
  // Pods of the earlier template, which the new ones replace, have no obstacle.
  assert.equal(progress([stuck, starting]).obstacle, undefined)
  const rejected = (message: string) => ({
    conditions: [{ type: 'ReplicaFailure', status: 'True', message }],
  })
  const quota = 'pods "p" is forbidden: exceeded quota: few'
  const cause = `the API server rejects its pods: ${quota}`
  assert.deepEqual(progress([], rejected(quota)).obstacle, { of: 'pod', cause })
  assert.equal(progress([], rejected('failed calling webhook: timeout')).obstacle, undefined)
  // A pod of the earlier template may soon end, and so free the quota.
  assert.equal(progress([], { ...rejected(quota), replicas: 4 }).obstacle, undefined)
})
