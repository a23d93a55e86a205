import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../api/kube-object.ts'
import { createAppliedObjects, unseenMs } from './applied-objects.ts'

function open() {
  let nowMs = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const applied = createAppliedObjects(clock)
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { ...applied, pass }
}

const object = (value: unknown, resourceVersion?: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'a', ...(resourceVersion === undefined ? {} : { resourceVersion }) },
  spec: { value },
})
const wanted = object(1)

test('an object in the desired state is left, and any other is applied', () => {
  const { nextStep } = open()
  assert.equal(nextStep('a', wanted, object(1, '5')).what, 'leave')
  assert.equal(nextStep('a', wanted, object(2, '5')).what, 'apply')
  assert.equal(nextStep('a', wanted, undefined).what, 'apply')
})

test('an apply that the watch has not shown is waited for, and finally repeated', () => {
  for (const live of [undefined, object(2, '9')]) {
    const { nextStep, applied, pass } = open()
    applied('a', wanted, object(1, '10'))
    assert.deepEqual(nextStep('a', wanted, live), { what: 'wait', ms: unseenMs, why: 'unseen' })
    pass(unseenMs)
    assert.equal(nextStep('a', wanted, live).what, 'apply')
  }
})

test('a copy older than the last apply is applied, although it has the desired state', () => {
  const { nextStep, applied } = open()
  applied('a', object(2), object(2, '10'))
  assert.equal(nextStep('a', wanted, object(1, '9')).what, 'apply')
  assert.equal(nextStep('a', wanted, object(1, '11')).what, 'leave')
})

test('a default of the API server is not a reason to apply again', () => {
  const { nextStep, applied } = open()
  applied('a', wanted, object('one', '10'))
  assert.equal(nextStep('a', wanted, object('one', '10')).what, 'leave')
  assert.equal(nextStep('a', wanted, { ...object('one', '11'), status: { changed: true } }).what, 'leave')
  assert.equal(nextStep('a', wanted, object('two', '12')).what, 'apply')
})

test('an object that vanished after it was seen is applied immediately', () => {
  const { nextStep, applied } = open()
  applied('a', wanted, object(1, '10'))
  nextStep('a', wanted, object(1, '10'))
  assert.equal(nextStep('a', wanted, undefined).what, 'apply')
})

test('a third repair within a minute waits, but a new desired state is applied immediately', () => {
  const { nextStep, applied, pass } = open()
  let version = 10
  const write = (desired: KubeObject) => {
    applied('a', desired, { ...desired, metadata: { name: 'a', resourceVersion: `${++version}` } })
    version += 1
  }
  const theirs = () => object('theirs', `${version}`)
  write(wanted)
  for (let repair = 0; repair < 2; repair += 1) {
    assert.equal(nextStep('a', wanted, theirs()).what, 'apply')
    write(wanted)
    pass(1_000)
  }
  assert.deepEqual(nextStep('a', wanted, theirs()), { what: 'wait', ms: 58_000, why: 'contested' })
  assert.equal(nextStep('a', object(3), theirs()).what, 'apply')
  pass(58_000)
  assert.equal(nextStep('a', wanted, theirs()).what, 'apply')
})

test('applied objects count as unseen until the watch shows them, or they are forgotten', () => {
  const { unseen, applied, forget } = open()
  applied('a', wanted, object(1, '10'))
  const names = (live: KubeObject | undefined) => unseen(() => live).map(({ metadata }) => metadata.name)
  assert.deepEqual(names(undefined), ['a'])
  assert.deepEqual(names(object(1, '9')), ['a'])
  assert.deepEqual(names(object(1, '10')), [])
  assert.deepEqual(names(undefined), [], 'it was seen, and is gone')
  applied('a', wanted, object(1, '12'))
  forget('a')
  assert.deepEqual(names(undefined), [])
})
