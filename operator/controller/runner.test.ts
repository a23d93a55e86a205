import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createRunner, type Runner } from './runner.ts'

type RunnerCooldown = NonNullable<Parameters<typeof createRunner>[0]['rest']>

const noRest: RunnerCooldown = { factor: 0, shortestMs: 0, longestMs: 0, owedMs: 0 }

/** Starts a runner whose runs end when the test ends them. */
function startRunner(rest = noRest) {
  const runs: { succeed(): void; fail(): void }[] = []
  const errors: { readonly error: unknown; readonly retryMs: number }[] = []
  let atOnce = 0
  let mostAtOnce = 0
  const runner = createRunner({
    reconcile: async () => {
      atOnce += 1
      mostAtOnce = Math.max(mostAtOnce, atOnce)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      runs.push({ succeed: resolve, fail: () => reject(new Error('not now')) })
      await promise.finally(() => {
        atOnce -= 1
      })
    },
    onError: (error, retryMs) => errors.push({ error, retryMs }),
    random: () => 0,
    rest,
  })
  return { runner, runs, errors, mostAtOnce: () => mostAtOnce }
}

/** Waits for all work that is due without a timer. */
const settle = () => new Promise<void>(resolve => setImmediate(resolve))

function triggerTimes(runner: Runner, count: number): void {
  for (let time = 0; time < count; time++) runner.trigger()
}

test('many triggers before a run cause one run, and many during it cause one more', async () => {
  const { runner, runs } = startRunner()
  triggerTimes(runner, 5)
  await settle()
  assert.equal(runs.length, 1)
  triggerTimes(runner, 5)
  await settle()
  assert.equal(runs.length, 1, 'the first one still runs')
  runs[0]?.succeed()
  await settle()
  assert.equal(runs.length, 2)
  runs[1]?.succeed()
  await settle()
  assert.equal(runs.length, 2)
})

test('a trigger at any moment around the end of a run causes exactly one more run', async () => {
  for (let turns = 0; turns < 12; turns++) {
    const { runner, runs, mostAtOnce } = startRunner()
    runner.trigger()
    await settle()
    runs[0]?.succeed()
    for (let turn = 0; turn < turns; turn++) await Promise.resolve()
    runner.trigger()
    await settle()
    assert.equal(runs.length, 2, `a trigger ${turns} turns after the end`)
    assert.equal(mostAtOnce(), 1)
  }
})

test('a failed run is retried with growing waits, and a success resets them', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { runner, runs, errors } = startRunner()
  runner.trigger()
  await settle()
  for (const waitMs of [100, 200, 400]) {
    runs.at(-1)?.fail()
    await settle()
    const before = runs.length
    t.mock.timers.tick(waitMs - 1)
    await settle()
    assert.equal(runs.length, before)
    t.mock.timers.tick(1)
    await settle()
    assert.equal(runs.length, before + 1)
  }
  assert.deepEqual(
    errors.map(({ retryMs }) => retryMs),
    [100, 200, 400],
  )
  runs.at(-1)?.succeed()
  await settle()
  runner.trigger()
  await settle()
  runs.at(-1)?.fail()
  await settle()
  assert.equal(errors.at(-1)?.retryMs, 100)
  assert.match(`${errors.at(-1)?.error}`, /not now/)
})

test('a change does not wait for a retry, and replaces it', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { runner, runs } = startRunner()
  runner.trigger()
  await settle()
  runs[0]?.fail()
  await settle()
  runner.trigger()
  await settle()
  assert.equal(runs.length, 2)
  runs[1]?.succeed()
  await settle()
  t.mock.timers.tick(60_000)
  await settle()
  assert.equal(runs.length, 2)
})

test('the stop waits for the run, and no run begins after it', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { runner, runs } = startRunner()
  triggerTimes(runner, 2)
  await settle()
  runner.trigger()
  let stopped = false
  const stop = runner.stop().then(() => {
    stopped = true
  })
  await settle()
  assert.equal(stopped, false)
  runs[0]?.fail()
  await stop
  runner.trigger()
  t.mock.timers.tick(60_000)
  await settle()
  assert.equal(runs.length, 1)
})

test('changes after a run are merged until the pause ends, and a stop ends the pause', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { runner, runs } = startRunner({ factor: 0, shortestMs: 50, longestMs: 50, owedMs: 0 })
  runner.trigger()
  await settle()
  runs[0]?.succeed()
  await settle()
  triggerTimes(runner, 5)
  t.mock.timers.tick(49)
  await settle()
  assert.equal(runs.length, 1)
  t.mock.timers.tick(1)
  await settle()
  assert.equal(runs.length, 2)
  runs[1]?.succeed()
  await settle()
  await runner.stop()
})

/** Starts runs of at least 20 ms, each of which requests the next. Pauses end by the timers of the test. */
function startBusy(t: TestContext, rest: RunnerCooldown) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let begun = 0
  let ended = 0
  const runner = createRunner({
    async reconcile() {
      begun += 1
      const beginMs = performance.now()
      while (performance.now() - beginMs < 20) await settle()
      ended += 1
      setImmediate(runner.trigger)
    },
    onError: error => assert.fail(`${error}`),
    random: () => 0,
    rest,
  })
  t.after(() => runner.stop())
  runner.trigger()
  return {
    /** Waits for the end of the latest run. Resolves with whether the next one begins without a timer. */
    async continues(): Promise<boolean> {
      const before = Math.max(begun, 1)
      while (ended < before) await settle()
      for (let turn = 0; turn < 5; turn += 1) await settle()
      return begun > before
    },
  }
}

test('the pause grows with the duration of the run', async t => {
  const { continues } = startBusy(t, { factor: 3, shortestMs: 0, longestMs: 1_000, owedMs: 0 })
  assert.equal(await continues(), false)
  t.mock.timers.tick(40)
  assert.equal(await continues(), false)
  t.mock.timers.tick(960)
  assert.equal(await continues(), true)
})

test('runs postpone their pauses up to a limit, and pause beyond it', async t => {
  const owing = startBusy(t, { factor: 3, shortestMs: 0, longestMs: 1_000, owedMs: 1_000_000 })
  for (let run = 0; run < 3; run += 1) assert.equal(await owing.continues(), true)
  t.mock.timers.reset()
  const waiting = startBusy(t, { factor: 10, shortestMs: 0, longestMs: 60, owedMs: 1_000 })
  let postponed = 0
  while (await waiting.continues()) postponed += 1
  assert.ok(postponed < 8, `${postponed} runs had no pause`)
  t.mock.timers.tick(60)
  assert.equal(await waiting.continues(), true)
})
