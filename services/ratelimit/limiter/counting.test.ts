import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CircuitBreaker } from '../counters/circuit-breaker.ts'
import { CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { createCounting, type FailureMode } from './counting.ts'

const batch: readonly Hit[] = [{ key: 'k_60', hits: 2, expirySeconds: 60, limit: 10 }]
const clock = { nowMs: () => 0, monotonicMs: () => 0 }

function open(mode: FailureMode, more: { problem?: string; localShare?: number } = {}) {
  const told: string[] = []
  const breaker: CircuitBreaker = {
    problem: more.problem,
    succeeded: () => told.push('succeeded'),
    failed: ({ message }) => told.push(message),
    close() {},
  }
  let failures = 0
  const counting = createCounting({
    counters: { add: () => Promise.reject(new CountersError('away')) },
    breaker,
    mode,
    local: createMemoryCounters({ clock }),
    localShare: more.localShare ?? 1,
    onFailure: () => failures++,
  })
  return { counting, told, failures: () => failures }
}

test('a failure is an error, or a decision without the backend', async () => {
  await assert.rejects(async () => open('error').counting.add(batch), {
    name: 'CountersError',
    message: 'away',
  })
  assert.deepEqual(await open('allow').counting.add(batch), [0])
  assert.deepEqual(await open('deny').counting.add(batch), [maxCount])
})

test('each failure is told to the breaker and counted, whatever becomes of the call', async () => {
  for (const mode of ['allow', 'deny', 'local'] as const) {
    const { counting, told, failures } = open(mode)
    await counting.add(batch)
    assert.deepEqual([told, failures()], [['away'], 1])
  }
})

test('a process that counts alone lets its share through', async () => {
  const { counting } = open('local', { localShare: 0.25 })
  assert.deepEqual(await counting.add(batch), [8])
  assert.deepEqual(await counting.add(batch), [16])
})

test('while the breaker says so the backend is not asked', async () => {
  const { counting, told, failures } = open('error', { problem: 'gone for long' })
  await assert.rejects(async () => counting.add(batch), { name: 'CountersError', message: 'gone for long' })
  assert.deepEqual([told, failures()], [[], 1])
})
