import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCircuitBreaker } from './circuit-breaker.ts'
import { CountersError, type Hit } from './counters.ts'

function open(t: {
  mock: { timers: { enable(options: { apis: ['setInterval'] }): void; tick(ms: number): void } }
}) {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let nowMs = 0
  let answers = false
  const asked: (readonly Hit[])[] = []
  const told: (string | undefined)[] = []
  const breaker = createCircuitBreaker({
    counters: {
      add(batch) {
        asked.push(batch)
        return answers ? Promise.resolve([0]) : Promise.reject(new CountersError('still away'))
      },
    },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    onChange: problem => told.push(problem),
  })
  return {
    breaker,
    asked,
    told,
    pass(ms: number) {
      nowMs += ms
    },
    fail: (text = 'away') => breaker.failed(new CountersError(text)),
    async probeOnce(backendAnswers: boolean) {
      answers = backendAnswers
      t.mock.timers.tick(200)
      for (let turn = 0; turn < 3; turn++) await Promise.resolve()
    },
  }
}

test('ten failures in a row open it, and the last error is what callers are told', t => {
  const { breaker, fail, told } = open(t)
  for (let failure = 1; failure < 10; failure++) fail()
  breaker.succeeded()
  for (let failure = 1; failure < 10; failure++) fail()
  assert.equal(breaker.problem, undefined)
  fail('gone')
  assert.equal(breaker.problem, 'gone')
  assert.deepEqual(told, ['gone'])
})

test('with few callers it opens when half a second brought failures alone', t => {
  const { breaker, fail, pass } = open(t)
  fail()
  pass(499)
  fail()
  assert.equal(breaker.problem, undefined)
  pass(1)
  fail()
  assert.equal(breaker.problem, 'away')
})

test('it asks until the backend answers, and creates no counter by that', async t => {
  const { breaker, fail, asked, told, probeOnce } = open(t)
  for (let failure = 0; failure < 10; failure++) fail()
  await probeOnce(false)
  assert.equal(breaker.problem, 'still away')
  await probeOnce(true)
  assert.equal(breaker.problem, undefined)
  await probeOnce(true)
  assert.equal(asked.length, 2, 'nothing is asked once it is closed')
  assert.ok(asked.flat().every(({ hits }) => hits === 0))
  assert.deepEqual(told, ['away'], 'it may count nothing still')
  breaker.succeeded()
  assert.deepEqual(told, ['away', undefined])
})

test('a backend that can be looked at, but counts nothing, is told of once', async t => {
  const { breaker, fail, told, probeOnce } = open(t)
  for (let turn = 0; turn < 3; turn++) {
    for (let failure = 0; failure < 10; failure++) fail()
    assert.notEqual(breaker.problem, undefined)
    await probeOnce(true)
  }
  assert.deepEqual(told, ['away'])
})
