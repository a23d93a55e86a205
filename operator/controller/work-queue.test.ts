import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type ReconcileOutcome, WorkQueue } from './work-queue.ts'

interface Run {
  readonly key: string
  end(outcome: ReconcileOutcome): void
  fail(error?: unknown): void
}

/**
 * Starts a queue whose runs end when the test ends them. At the end of the test it is stopped, so that no
 * retries remain.
 */
function startQueue(t: TestContext, concurrency = 2) {
  const runs: Run[] = []
  const errors: { readonly key: string; readonly retryMs: number }[] = []
  const active = new Set<string>()
  let mostAtOnce = 0
  const queue = new WorkQueue({
    reconcile: async key => {
      assert.ok(!active.has(key), `${key} has two workers`)
      active.add(key)
      mostAtOnce = Math.max(mostAtOnce, active.size)
      const { promise, resolve, reject } = Promise.withResolvers<ReconcileOutcome>()
      runs.push({ key, end: resolve, fail: (error = new Error('not now')) => reject(error) })
      return promise.finally(() => active.delete(key))
    },
    concurrency,
    onError: (key, _error, retryMs) => errors.push({ key, retryMs }),
    random: () => 0,
  })
  t.after(() => void queue.stop())
  return { queue, runs, errors, active, mostAtOnce: () => mostAtOnce, keys: () => runs.map(({ key }) => key) }
}

/** Waits for all work that is due without a timer. */
const settle = () => new Promise<void>(resolve => setImmediate(resolve))

test('many additions of a key before its run cause one run, and many during it cause one more', async t => {
  const { queue, runs, keys } = startQueue(t)
  for (const key of ['a', 'b', 'a', 'a']) queue.add(key)
  await settle()
  assert.deepEqual(keys(), ['a', 'b'])
  for (const key of ['a', 'a']) queue.add(key)
  await settle()
  assert.deepEqual(keys(), ['a', 'b'], 'the first one still runs')
  runs[0]?.end('done')
  await settle()
  assert.deepEqual(keys(), ['a', 'b', 'a'])
  runs[2]?.end('done')
  await settle()
  assert.equal(runs.length, 3)
})

test('the queue runs at most the allowed number at a time, in the order of the keys', async t => {
  const { queue, runs, keys, mostAtOnce } = startQueue(t, 2)
  for (const key of ['a', 'b', 'c', 'd', 'b']) queue.add(key)
  await settle()
  assert.equal(queue.waiting(), 2)
  for (let run = 0; run < 4; run++) {
    runs[run]?.end('done')
    await settle()
  }
  assert.deepEqual(keys(), ['a', 'b', 'c', 'd'])
  assert.equal(mostAtOnce(), 2)
})

test('a failing key waits longer each time, without delaying others, until a success', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs, errors, keys } = startQueue(t, 1)
  queue.add('a')
  await settle()
  for (const waitMs of [100, 200, 400]) {
    runs.at(-1)?.fail()
    await settle()
    t.mock.timers.tick(waitMs - 1)
    queue.add('b')
    await settle()
    assert.equal(keys().at(-1), 'b')
    runs.at(-1)?.end('done')
    await settle()
    t.mock.timers.tick(1)
    await settle()
    assert.equal(keys().at(-1), 'a')
  }
  runs.at(-1)?.end('done')
  await settle()
  queue.add('a')
  await settle()
  runs.at(-1)?.fail()
  await settle()
  assert.deepEqual(
    errors.map(({ retryMs }) => retryMs),
    [100, 200, 400, 100],
  )
})

test('a failure that names a delay is not retried before it', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs } = startQueue(t)
  queue.add('a')
  await settle()
  runs[0]?.fail(Object.assign(new Error('too many'), { retryAfterMs: 5_000 }))
  await settle()
  t.mock.timers.tick(5_000)
  await settle()
  assert.equal(runs.length, 1)
  t.mock.timers.tick(100)
  await settle()
  assert.equal(runs.length, 2)
})

test('timeouts halve the concurrency, and successes restore it gradually', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs, active } = startQueue(t, 8)
  for (let key = 0; key < 100; key++) queue.add(`${key}`)
  await settle()
  assert.equal(active.size, 8)
  const end = async (how: (run: Run) => void) => {
    for (const run of runs.splice(0)) how(run)
    await settle()
  }
  await end(run => run.fail(Object.assign(new Error('no answer'), { reason: 'Timeout' })))
  assert.equal(active.size, 1)
  const sizes: number[] = []
  for (let round = 0; round < 12; round++) {
    await end(run => run.end('done'))
    sizes.push(active.size)
  }
  assert.deepEqual(sizes, [2, 2, 3, 4, 5, 6, 7, 7, 8, 8, 8, 8])
})

test('a change does not shorten the delay that the API server asked for', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs } = startQueue(t)
  queue.add('a')
  await settle()
  queue.add('a')
  runs[0]?.fail(Object.assign(new Error('too many'), { retryAfterMs: 5_000 }))
  await settle()
  queue.add('a')
  t.mock.timers.tick(5_000)
  await settle()
  queue.add('a')
  assert.equal(runs.length, 1)
  t.mock.timers.tick(100)
  await settle()
  assert.equal(runs.length, 2)
  queue.add('a')
  runs[1]?.end('done')
  await settle()
  assert.equal(runs.length, 3, 'later changes run at once')
  runs[2]?.end('done')
  await settle()
  assert.equal(runs.length, 3)
})

test('a run can schedule the next one, and a change makes it sooner', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs } = startQueue(t)
  queue.add('a')
  await settle()
  runs[0]?.end({ afterMs: 1_000 })
  await settle()
  t.mock.timers.tick(1_000)
  await settle()
  assert.equal(runs.length, 2)
  runs[1]?.end({ afterMs: 1_000 })
  await settle()
  queue.add('a')
  await settle()
  assert.equal(runs.length, 3)
  runs[2]?.end('done')
  await settle()
  t.mock.timers.tick(10_000)
  await settle()
  assert.equal(runs.length, 3, 'the earlier request is gone')
})

test('the stop waits for the current runs, and no run begins after it', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { queue, runs } = startQueue(t, 1)
  for (const key of ['a', 'b', 'a']) queue.add(key)
  await settle()
  queue.add('a')
  let stopped = false
  const stop = queue.stop().then(() => {
    stopped = true
  })
  await settle()
  assert.equal(stopped, false)
  runs[0]?.fail()
  await stop
  queue.add('c')
  t.mock.timers.tick(60_000)
  await settle()
  assert.equal(runs.length, 1)
})

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ add: fc.constantFrom('a', 'b', 'c', 'd') }) },
  fc.record({ end: fc.nat(3), how: fc.constantFrom('done', 'fail', 'after') }),
  fc.record({ turns: fc.nat(6) }),
)

test('each addition is followed by a run that begins after it, and each key has one worker', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async steps => {
      const { queue, runs, active, keys, mostAtOnce } = startQueue(t, 2)
      const owed = new Map<string, number>()
      const ended = new Set<Run>()
      const end = (run: Run | undefined, how: string) => {
        if (run === undefined) return
        ended.add(run)
        if (how === 'fail') run.fail()
        else run.end(how === 'done' ? 'done' : { afterMs: 1_000 })
      }
      for (const next of steps) {
        if ('add' in next) {
          owed.set(next.add, runs.length)
          queue.add(next.add)
        } else if ('end' in next) {
          end(runs.filter(run => !ended.has(run))[next.end], next.how)
        } else {
          for (let turn = 0; turn < next.turns; turn++) await Promise.resolve()
        }
      }
      for (let round = 0; round < 20 && (active.size > 0 || queue.waiting() > 0 || round < 2); round++) {
        await settle()
        for (const run of runs) if (!ended.has(run)) end(run, 'done')
      }
      for (const [key, from] of owed) assert.ok(keys().slice(from).includes(key), `${key} was forgotten`)
      assert.ok(mostAtOnce() <= 2)
      await queue.stop()
    }),
    { numRuns: 200, seed: Number(process.env['FC_SEED'] ?? 20_260_401) },
  )
})
