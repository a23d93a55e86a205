import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { BackendWatch } from './watch-backend.ts'

const timing = { intervalMs: 5_000, recheckMs: 1_000, timeoutMs: 2_000, confirmations: 3 }

/** Watches a backend whose next answers the test chooses: `ok`, `silent`, or the message of an error. */
function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const backend = { answer: 'ok', probes: 0 }
  const changes: string[] = []
  const watch = new BackendWatch({
    timing,
    probe() {
      backend.probes += 1
      if (backend.answer === 'silent') return new Promise(() => {})
      return backend.answer === 'ok' ? Promise.resolve() : Promise.reject(new Error(backend.answer))
    },
    onChange: problem => changes.push(problem),
  })
  t.after(() => watch.stop())
  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      t.mock.timers.tick(500)
      for (let turn = 0; turn < 5; turn++) await Promise.resolve()
    }
  }
  return { backend, changes, watch, pass }
}

test('three failed probes in a row are a failure, whose text stays, and three answers end it', async t => {
  const { backend, changes, watch, pass } = open(t)
  backend.answer = 'rejected'
  await pass(6_500)
  assert.deepEqual([watch.problem, backend.probes], ['', 2])
  await pass(500)
  assert.equal(watch.problem, 'rejected')
  backend.answer = 'reset'
  await pass(10_000)
  assert.equal(watch.problem, 'rejected')
  backend.answer = 'ok'
  await pass(2_000)
  assert.equal(watch.problem, 'rejected')
  await pass(1_000)
  assert.deepEqual(changes, ['rejected', ''])
})

test('a probe without an answer fails after the timeout, and one probe runs at a time', async t => {
  const { backend, changes, pass } = open(t)
  backend.answer = 'silent'
  await pass(5_000)
  assert.equal(backend.probes, 1)
  await pass(1_500)
  assert.equal(backend.probes, 1)
  await pass(6_500)
  assert.deepEqual(changes, ['no answer within 2 s'])
})

test('a backend that alternates between answers and failures changes nothing', async t => {
  const { backend, changes, pass } = open(t)
  for (let round = 0; round < 30; round++) {
    backend.answer = round % 2 === 0 ? 'rejected' : 'ok'
    await pass(1_000)
  }
  assert.deepEqual(changes, [])
})

test('probeNow probes at once, and stop ends the probes', async t => {
  const { backend, watch, pass } = open(t)
  watch.probeNow()
  assert.equal(backend.probes, 1)
  watch.stop()
  await pass(20_000)
  assert.equal(backend.probes, 1)
})
