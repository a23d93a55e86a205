import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../api/kube-object.ts'
import { createAppliedObjects, unseenMs } from './applied-objects.ts'
import { repairLimits } from './repair-pace.ts'

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

test('what is as it should be is left alone, and what is not is applied', () => {
  const { nextStep } = open()
  assert.equal(nextStep('a', wanted, object(1, '5')).what, 'leave')
  assert.equal(nextStep('a', wanted, object(2, '5')).what, 'apply')
  assert.equal(nextStep('a', wanted, undefined).what, 'apply')
})

test('an apply that the watch has not shown is waited for, and in the end repeated', () => {
  for (const live of [undefined, object(2, '9')]) {
    const { nextStep, applied, pass } = open()
    applied('a', wanted, object(1, '10'))
    assert.deepEqual(nextStep('a', wanted, live), { what: 'wait', ms: unseenMs, why: 'unseen' })
    pass(unseenMs)
    assert.equal(nextStep('a', wanted, live).what, 'apply')
  }
})

test('a stale object that satisfies the desired state is applied all the same', () => {
  const { nextStep, applied } = open()
  applied('a', object(2), object(2, '10'))
  assert.equal(nextStep('a', wanted, object(1, '9')).what, 'apply')
  assert.equal(nextStep('a', wanted, object(1, '11')).what, 'leave')
})

test('what the server wrote in its own way is not applied again', () => {
  const { nextStep, applied } = open()
  applied('a', wanted, object('one', '10'))
  assert.equal(nextStep('a', wanted, object('one', '10')).what, 'leave')
  assert.equal(nextStep('a', wanted, { ...object('one', '11'), status: { changed: true } }).what, 'leave')
  assert.equal(nextStep('a', wanted, object('two', '12')).what, 'apply')
})

test('what is gone after it was seen is applied at once', () => {
  const { nextStep, applied } = open()
  applied('a', wanted, object(1, '10'))
  nextStep('a', wanted, object(1, '10'))
  assert.equal(nextStep('a', wanted, undefined).what, 'apply')
})

test('two repairs within a minute, then a delay; a new desired state is applied at once', () => {
  const { nextStep, applied, pass } = open()
  let version = 10
  const write = (desired: KubeObject) => {
    applied('a', desired, { ...desired, metadata: { name: 'a', resourceVersion: `${++version}` } })
    version += 1
  }
  const theirs = () => object('theirs', `${version}`)
  write(wanted)
  for (let repair = 0; repair < repairLimits.repairs; repair += 1) {
    assert.equal(nextStep('a', wanted, theirs()).what, 'apply')
    write(wanted)
    pass(1_000)
  }
  assert.deepEqual(nextStep('a', wanted, theirs()), { what: 'wait', ms: 58_000, why: 'contest' })
  assert.equal(nextStep('a', object(3), theirs()).what, 'apply')
  pass(58_000)
  assert.equal(nextStep('a', wanted, theirs()).what, 'apply')
})

test('what nobody has seen is told, until it is seen or forgotten', () => {
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
