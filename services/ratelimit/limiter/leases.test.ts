import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { uniform } from '../../../test/bench/load/requests.ts'
import { tokenBucket } from '../../../test/oracles/algorithms.ts'
import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import { CountersError, type Hit } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { createCounting } from './counting.ts'
import { Leases } from './leases.ts'
import { OverLimitCache } from './over-limit-cache.ts'

const numRuns = Number(process.env['TRACES'] ?? 1_000)
const startMs = 1_700_000_000_000

// Tests sweep by their own time.
mock.timers.enable({ apis: ['setInterval'] })

/** How long a request takes to the counters and back, and what becomes of it. */
interface Link {
  readonly thereMs: number
  readonly backMs: number
  readonly fate: 'arrives' | 'request lost' | 'reply lost'
}

const fast: Link = { thereMs: 1, backMs: 1, fate: 'arrives' }

/** Processes with one time that share counters in memory, which they reach over links. */
function openProcesses(count: number, linkOf: () => Link = () => fast, stopWhenOver = false) {
  let nowMs = startMs
  let sequence = 0
  let sweepMs = startMs + 100
  const due: { atMs: number; sequence: number; run: () => void }[] = []
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs - startMs }
  const counters = createMemoryCounters({ clock })
  let commands = 0
  const schedule = (atMs: number, run: () => void) => void due.push({ atMs, sequence: sequence++, run })
  function send<Answer>(ask: () => Answer): Promise<Awaited<Answer>> {
    const { thereMs, backMs, fate } = linkOf()
    commands += 1
    return new Promise((resolve, reject) => {
      if (fate !== 'arrives') {
        schedule(nowMs + 100, () => reject(new CountersError('the deadline of the backend')))
      }
      if (fate === 'request lost') return
      schedule(nowMs + thereMs, () => {
        const answer = ask() as Awaited<Answer>
        answeredMs.set(answer as object, nowMs)
        if (fate === 'arrives') schedule(nowMs + backMs, () => resolve(answer))
      })
    })
  }
  const announced: string[] = []
  const added: (readonly string[])[] = []
  const answeredMs = new WeakMap<object, number>()
  const processes = Array.from({ length: count }, () => {
    return new Leases({
      counters: {
        add(hits: readonly Hit[]) {
          added.push(hits.map(({ key }) => key))
          return send(() => counters.add(hits))
        },
        admit: (checks: readonly LimitCheck[]) => send(() => counters.admit(checks)),
      },
      stopWhenOver,
      clock,
      ensureListening: () => true,
      onReturned: keys => {
        announced.push(...keys)
        for (const key of keys) for (const each of processes) each.forget(key)
      },
    })
  })
  return {
    processes,
    counters,
    announced,
    /** The keys of each call of `Counters.add`. */
    added,
    /** When the counters decided a call, or a lease did. */
    decidedMs: (outcomes: readonly LimitOutcome[]) => answeredMs.get(outcomes) ?? nowMs,
    commands: () => commands,
    /** Lets the time pass, with everything that is due. */
    async pass(ms: number) {
      const untilMs = nowMs + ms
      for (;;) {
        due.sort((a, b) => a.atMs - b.atMs || a.sequence - b.sequence)
        const nextMs = Math.min(due[0]?.atMs ?? untilMs, sweepMs, untilMs)
        nowMs = Math.max(nowMs, nextMs)
        if (nowMs >= sweepMs) {
          sweepMs += 100
          for (const each of processes) each.sweep()
        } else if (due[0] !== undefined && due[0].atMs <= nowMs) due.shift()?.run()
        else if (nowMs >= untilMs) break
        await setImmediate()
      }
    },
  }
}

function checkOf(changes: Partial<LimitCheck> = {}): LimitCheck {
  return {
    key: 'key',
    algorithm: 'FixedWindow',
    hits: 1,
    limit: 100,
    burst: 100,
    windowTicks: 3_600_000,
    ticksPerSecond: 1_000,
    expirySeconds: 3_600,
    shadow: false,
    countRejected: false,
    leased: true,
    ...changes,
  }
}

const bucketOf = (changes: Partial<LimitCheck> = {}) =>
  checkOf({ algorithm: 'TokenBucket', windowTicks: 1_000, ...changes })

/** Asks as the limiter does: a fixed window by itself only adds its hits. */
function ask(
  process: Leases | undefined,
  checks: readonly LimitCheck[],
): readonly LimitOutcome[] | Promise<readonly LimitOutcome[]> {
  const [check] = checks
  if (process === undefined || check === undefined) return []
  if (checks.length > 1 || check.algorithm !== 'FixedWindow' || check.countRejected)
    return process.admit(checks)
  const { key, hits, limit, expirySeconds, leased = false } = check
  const values = process.add([{ key, hits, limit, expirySeconds, leased }])
  const toOutcomes = ([value = 0]: readonly number[]) => [
    { admitted: value + (hits === 0 ? 1 : 0) <= limit, remaining: limit - value, waitSeconds: 0 },
  ]
  return values instanceof Promise ? values.then(toOutcomes) : toOutcomes(values)
}

/** Calls so often that the key has a lease, and returns the outcome of each call. */
async function call(
  { processes, pass }: ReturnType<typeof openProcesses>,
  check: LimitCheck,
  times: number,
  everyMs = 1,
): Promise<LimitOutcome[]> {
  const outcomes: Promise<readonly LimitOutcome[]>[] = []
  for (let time = 0; time < times; time += 1) {
    outcomes.push(Promise.resolve(ask(processes[0], [check])))
    await pass(everyMs)
  }
  await pass(10)
  return (await Promise.all(outcomes)).map(([outcome]) => outcome as LimitOutcome)
}

test('a key that is called once costs one call of the counters, as without leases', async () => {
  const opened = openProcesses(1)
  for (let key = 0; key < 50; key += 1) await call(opened, checkOf({ key: `key ${key}` }), 1)
  await opened.pass(3_000)
  assert.equal(opened.commands(), 50)
})

test('a key that is called too seldom loses its lease and costs no more than without', async () => {
  const opened = openProcesses(1)
  const check = checkOf({ limit: 1e6, burst: 1e6 })
  await call(opened, check, 100)
  await call(opened, check, 200, 20)
  const before = opened.commands()
  await call(opened, check, 100, 20)
  assert.equal(opened.commands() - before, 100)
})

test('of many keys that are equally busy, hardly any gets a lease by accident', () => {
  const keys = Array.from({ length: 10_000 }, (_, index) => `key ${index}`)
  const periods = 100
  const callsPerPeriod = 25_000
  let leased = 0
  const leases = new Leases({
    counters: { add: batch => batch.map(() => 1), admit: () => [] },
    ...{ stopWhenOver: false, clock: { nowMs: () => 0, monotonicMs: () => 0 }, onReturned: () => {} },
    ensureListening() {
      leased += 1
      return false
    },
  })
  const next = uniform(keys.length)
  for (let period = 0; period < periods; period += 1) {
    for (let call = 0; call < callsPerPeriod; call += 1) {
      const key = keys[next()] ?? ''
      leases.add([{ key, hits: 1, limit: 1e6, expirySeconds: 60, leased: true }])
    }
    leases.sweep()
  }
  assert.ok(leased <= 5, `${leased} calls found a key hot in ${periods} periods`)
})

test('a hot key is decided from leases, and every hit is counted or returned', async () => {
  for (const check of [checkOf({ limit: 1e6, burst: 1e6 }), bucketOf({ limit: 1, burst: 1e6 })]) {
    const opened = openProcesses(1)
    const outcomes = await call(opened, check, 2_000)
    assert.ok(outcomes.every(({ admitted }) => admitted))
    assert.ok(opened.commands() < 2_000 / 20, `${opened.commands()} calls of the counters`)
    const refilled = check.algorithm === 'TokenBucket' ? 2 : 0
    const remaining = outcomes.at(-1)?.remaining ?? 0
    assert.ok(remaining >= 1e6 - 2_000 && remaining <= 1e6 - 2_000 + refilled, `${remaining}`)
    await opened.pass(2_000)
    const [left] = await opened.counters.admit([{ ...check, hits: 0 }])
    assert.equal(left?.remaining, 1e6 - 2_000 + 2 * refilled)
  }
})

test('a process alone admits exactly the limit, in the order of the calls', async () => {
  const opened = openProcesses(1)
  const outcomes = await call(opened, checkOf({ limit: 200 }), 400)
  assert.deepEqual(
    outcomes.map(({ admitted }) => admitted),
    Array.from({ length: 400 }, (_, index) => index < 200),
  )
  assert.ok(opened.commands() < 100, `${opened.commands()} calls of the counters`)
})

test('after an edit to a longer window, calls that are admitted together keep the counter for it', async () => {
  const opened = openProcesses(1)
  const brief = checkOf({ limit: 1e6, burst: 1e6, expirySeconds: 60 })
  await call(opened, brief, 300)
  const long = { ...brief, expirySeconds: 3_600 }
  for (let time = 0; time < 100; time += 1) {
    void opened.processes[0]?.admit([long])
    await opened.pass(1)
  }
  await opened.pass(100_000)
  const [left] = await opened.counters.admit([{ ...long, hits: 0 }])
  assert.equal(left?.remaining, 1e6 - 400)
})

test('what one process has left becomes usable for another one after about a second', async () => {
  const opened = openProcesses(2)
  const [first, second] = opened.processes
  await call(opened, checkOf({ limit: 200 }), 120)
  const take = async () => {
    const outcomes = Promise.all(Array.from({ length: 100 }, () => ask(second, [checkOf({ limit: 200 })])))
    await opened.pass(50)
    return (await outcomes).filter(outcome => outcome?.[0]?.admitted).length
  }
  const before = await take()
  assert.ok(before < 80, `${before} of 80 admitted while the first process has a lease`)
  await opened.pass(1_200)
  assert.deepEqual(opened.announced, ['key'])
  assert.equal(before + (await take()), 80)
  assert.ok(first)
})

test('a rejection by a process ends when another one returns hits, also with a local cache', async () => {
  const opened = openProcesses(2)
  const [, second] = opened.processes
  assert.ok(second)
  const cache = new OverLimitCache(1)
  const counting = createCounting({
    ...{ counters: second, cache, stopWhenOver: false, mode: 'error', local: opened.counters, localShare: 1 },
    ...{ onSuccess: () => {}, onFailure: () => {} },
  })
  const { key, limit, expirySeconds } = checkOf({ limit: 400 })
  const isAdmitted = async (hits: number) => {
    const values = counting.add([{ key, hits, limit, expirySeconds, leased: true }], 0)
    await opened.pass(3)
    return (await values).every(value => value <= limit)
  }
  for (let call = 0; call < 50; call += 1) assert.ok(await isAdmitted(1))
  await call(opened, checkOf({ limit }), 150)
  assert.equal(await isAdmitted(200), false, 'the first process has hits that it does not use')
  assert.equal(await isAdmitted(1), true, 'a call of fewer hits')
  await opened.pass(1_300)
  assert.equal(await isAdmitted(199), true)
  assert.equal(await isAdmitted(1), false)
})

test('an answer from before hits were given back is not believed', async () => {
  const opened = openProcesses(1, () => ({ ...fast, backMs: 50 }))
  const check = checkOf({ limit: 10 })
  const [process] = opened.processes
  const calls: ReturnType<typeof ask>[] = []
  do calls.push(ask(process, [check]))
  while (opened.commands() === opened.added.length)
  await opened.pass(10)
  await opened.counters.admit([{ ...check, hits: -100 }])
  process?.forget(check.key)
  await opened.pass(300)
  const admitted = (await Promise.all(calls)).filter(([outcome]) => outcome?.admitted)
  assert.equal(admitted.length, 10)
  const later = ask(process, [check])
  await opened.pass(60)
  assert.equal((await later)[0]?.admitted, true)
})

test('hits are announced as returned if there is no answer about them', async () => {
  let fate: Link['fate'] = 'arrives'
  const opened = openProcesses(1, () => ({ ...fast, fate }))
  await call(opened, checkOf({ limit: 1e6 }), 200)
  fate = 'reply lost'
  await opened.pass(2_000)
  assert.deepEqual(opened.announced, ['key'])
  const [left] = await opened.counters.admit([checkOf({ limit: 1e6, hits: 0 })])
  assert.equal(left?.remaining, 1e6 - 200)
})

test('everything is returned when the process stops, also what is under way', async () => {
  const opened = openProcesses(1)
  const limits = [checkOf({ key: 'a', limit: 1e6 }), bucketOf({ key: 'b', limit: 1, burst: 1e6 })]
  for (const check of limits) await call(opened, check, 500)
  const [process] = opened.processes
  const running = limits.map(check => ask(process, [{ ...check, hits: 1_000 }]))
  const closed = process?.close()
  await opened.pass(50)
  await Promise.all([closed, ...running])
  for (const check of limits) {
    const [left] = await opened.counters.admit([{ ...check, hits: 0 }])
    assert.equal(left?.remaining, 1e6 - 1_500, check.key)
  }
})

test('a process that has stopped takes no lease, and starts no timer', async t => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  await process?.close()
  const timers = t.mock.method(globalThis, 'setInterval')
  await call(opened, checkOf({ limit: 1e6 }), 200)
  assert.equal(opened.commands(), 200)
  assert.equal(timers.mock.callCount(), 0)
})

test('a revoked lease is dropped and not returned, also one that is under way', async () => {
  const opened = openProcesses(1)
  const check = checkOf({ limit: 1e6 })
  await call(opened, check, 500)
  const [process] = opened.processes
  const running = ask(process, [{ ...check, hits: 1_000 }])
  await opened.counters.admit([{ ...check, hits: -1e6, grants: true }])
  process?.revoke('key')
  await opened.pass(3_000)
  assert.equal((await running)?.[0]?.admitted, true)
  const [left] = await opened.counters.admit([{ ...check, hits: 0 }])
  // The answer to the first take of the call was not believed, so it took its hits once more.
  assert.ok((left?.remaining ?? 0) <= 2e6 - 1_500, `${left?.remaining}`)
  assert.ok((left?.remaining ?? 0) > 2e6 - 4_000, `${left?.remaining}`)
})

test('the counters keep a window that has become longer, although its key and its limit are the same', async () => {
  const opened = openProcesses(1)
  const before = await call(opened, checkOf({ expirySeconds: 2 }), 40)
  const after = await call(opened, checkOf({ expirySeconds: 10 }), 200, 20)
  assert.equal([...before, ...after].filter(({ admitted }) => admitted).length, 100)
})

test('without the counters a process uses up its lease, then calls fail', async () => {
  let fate: Link['fate'] = 'arrives'
  const opened = openProcesses(1, () => ({ ...fast, fate }))
  const check = checkOf({ limit: 1e6 })
  await call(opened, check, 200)
  fate = 'request lost'
  let admitted = 0
  const failures: unknown[] = []
  for (let time = 0; time < 100; time += 1) {
    const outcomes = ask(opened.processes[0], [check])
    if (outcomes instanceof Promise) outcomes.catch(error => failures.push(error))
    else admitted += 1
  }
  await opened.pass(500)
  assert.ok(admitted > 10 && admitted < 90, `${admitted} admitted`)
  assert.equal(failures.length, 100 - admitted)
})

test('limits that admit calls together are leased together', async () => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  const checks = [checkOf({ key: 'a', limit: 1e6 }), bucketOf({ key: 'b', limit: 1, burst: 300 })]
  const outcomes: (readonly LimitOutcome[] | undefined)[] = []
  for (let time = 0; time < 400; time += 1) {
    const running = process?.admit(checks)
    await opened.pass(2)
    outcomes.push(await running)
  }
  const admitted = outcomes.filter(each => each?.every(outcome => outcome.admitted)).length
  assert.equal(admitted, 300)
  assert.deepEqual(
    outcomes.at(-1)?.map(outcome => outcome.admitted),
    [true, false],
  )
  await opened.pass(2_000)
  const [left] = await opened.counters.admit([{ ...checks[0], hits: 0 } as LimitCheck])
  assert.equal(left?.remaining, 1e6 - 300)
})

test('limits that admit calls together are leased each for its own hits', async () => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  const checks = [checkOf({ key: 'a', limit: 1e6 }), checkOf({ key: 'b', limit: 1e6, hits: 50 })]
  const before = async () => {
    for (let time = 0; time < 200; time += 1) {
      void process?.admit(checks)
      await opened.pass(1)
    }
    return opened.commands()
  }
  const first = await before()
  const second = await before()
  assert.ok(second - first < 40, `${second - first} calls of the counters for 200`)
})

test('the leases of a limit with many others together have at most a sixteenth of it', async () => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  const limit = 16_000
  const shared = checkOf({ key: 'shared', limit })
  const combinations = Array.from({ length: 40 }, (_, index) => [
    shared,
    checkOf({ key: `own ${index}`, limit: 1e6 }),
  ])
  let admitted = 0
  let most = 0
  for (let round = 0; round < 6; round += 1) {
    for (let time = 0; time < 30; time += 1) {
      for (const checks of combinations) {
        void Promise.resolve(process?.admit(checks)).then(outcomes => {
          admitted += Number(outcomes?.every(outcome => outcome.admitted))
        })
      }
      await opened.pass(1)
    }
    await opened.pass(10)
    const [left] = await opened.counters.admit([{ ...shared, hits: 0 }])
    const out = limit - (left?.remaining ?? 0) - admitted
    assert.ok(out <= limit / 16, `${out} hits are leased`)
    most = Math.max(most, out)
  }
  assert.ok(most > limit / 32, `${most} hits were leased at most`)
  await opened.pass(3_000)
  const [left] = await opened.counters.admit([{ ...shared, hits: 0 }])
  assert.equal(left?.remaining, limit - admitted)
})

test('limits whose keys are alike when joined have leases of their own', async () => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  const pairs = [
    ['a\nb', 'c'],
    ['a', 'b\nc'],
  ].map(keys => keys.map(key => checkOf({ key, limit: 1e6 })))
  for (let time = 0; time < 100; time += 1) {
    for (const checks of pairs) void process?.admit(checks)
    await opened.pass(1)
  }
  await opened.pass(2_000)
  for (const check of pairs.flat()) {
    const [left] = await opened.counters.admit([{ ...check, hits: 0 }])
    assert.equal(left?.remaining, 1e6 - 100, JSON.stringify(check.key))
  }
})

test('several hits of one call come from leases at once, and the others from one call of the counters', async () => {
  const opened = openProcesses(1)
  const [process] = opened.processes
  const toHit = ({ key, hits, limit, expirySeconds }: LimitCheck, leased = true): Hit => {
    return { key, hits, limit, expirySeconds, leased }
  }
  const hot = ['a', 'b'].map(key => checkOf({ key, limit: 1e6 }))
  for (const check of hot) await call(opened, check, 300)
  opened.added.length = 0
  assert.deepEqual(process?.add([...hot, ...hot].map(check => toHit(check))), [301, 301, 302, 302])
  const others = [checkOf({ key: 'c', hits: 3 }), checkOf({ key: 'd', hits: 4 })]
  const mixed = [others[0], hot[1], others[1]].map((check, index) => toHit(check as LimitCheck, index < 2))
  const values = process?.add(mixed)
  await opened.pass(5)
  assert.deepEqual(await values, [3, 303, 4])
  assert.deepEqual(opened.added, [['c', 'd']])
})

test('counters that stop at the limit decide all hits of a call together', async () => {
  const asked: (readonly Hit[])[] = []
  const leases = new Leases({
    counters: {
      add: batch => Promise.resolve(asked.push(batch) > 0 ? batch.map(() => 1) : []),
      admit: () => [],
    },
    ...{ stopWhenOver: true, clock: { nowMs: () => 0, monotonicMs: () => 0 } },
    ...{ ensureListening: () => assert.fail('a lease was taken'), onReturned: () => {} },
  })
  const batch = ['a', 'b'].map(key => ({ key, hits: 1, limit: 10, expirySeconds: 1, leased: true }))
  for (let time = 0; time < 100; time += 1) await leases.add(batch)
  assert.equal(asked.length, 100)
  assert.ok(asked.every(each => each === batch))
})

test('calls that give back, check, count beyond the limit or have no lease ask the counters', async () => {
  const opened = openProcesses(1)
  const check = checkOf({ limit: 1e6 })
  await call(opened, check, 500)
  const before = opened.commands()
  const others = [
    { ...check, hits: -1 },
    { ...check, countRejected: true },
    { ...check, key: 'other', hits: 0 },
    { ...check, leased: false },
  ]
  for (const other of others) {
    const running = ask(opened.processes[0], [other])
    await opened.pass(3)
    assert.equal((await running)?.length, 1)
  }
  assert.equal(opened.commands() - before, others.length)
  assert.deepEqual(opened.announced, ['key'])
  const look = ask(opened.processes[0], [{ ...check, hits: 0 }])
  assert.ok(!(look instanceof Promise) && look?.[0]?.admitted, 'a check is answered from the lease')
})

interface Step {
  readonly pauseMs: number
  readonly process: number
  readonly what: 'call' | 'kill' | 'stop'
  /** `burst` for as many as a bucket has. */
  readonly hits: number | 'burst'
  /** How many calls, one each millisecond. */
  readonly times: number
}

const trace = fc.record({
  algorithm: fc.constantFrom('FixedWindow', 'TokenBucket', 'limits'),
  limit: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 50, max: 2_000 })),
  burst: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 50, max: 2_000 })),
  links: fc.array(
    fc.record<Link>({
      thereMs: fc.oneof({ weight: 5, arbitrary: fc.nat(5) }, fc.nat(90)),
      backMs: fc.oneof({ weight: 5, arbitrary: fc.nat(5) }, fc.nat(90)),
      fate: fc.oneof(
        { weight: 8, arbitrary: fc.constant('arrives' as const) },
        fc.constantFrom('request lost' as const, 'reply lost' as const),
      ),
    }),
    { minLength: 1, maxLength: 20 },
  ),
  steps: fc.array(
    fc.record<Step>({
      pauseMs: fc.oneof({ weight: 8, arbitrary: fc.nat(12) }, fc.nat(400), fc.nat(2_500), fc.constant(950)),
      process: fc.nat(2),
      what: fc.oneof(
        { weight: 30, arbitrary: fc.constant('call' as const) },
        fc.constantFrom('kill' as const, 'stop' as const),
      ),
      hits: fc.oneof(
        { weight: 6, arbitrary: fc.constant(1) },
        fc.integer({ min: 1, max: 20 }),
        fc.constant('burst' as const),
      ),
      times: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.nat(60)),
    }),
    { minLength: 1, maxLength: 30 },
  ),
})

test('processes that lose requests and are killed never admit more than the limits', async () => {
  let leased = 0
  const isKept = fc.asyncProperty(trace, async ({ algorithm, limit, burst, links, steps }) => {
    let sent = 0
    const opened = openProcesses(6, () => links[sent++ % links.length] ?? fast)
    const fixed = checkOf({ key: 'fixed', limit })
    const bucket = bucketOf({ key: 'bucket', limit, burst })
    const checks = { FixedWindow: [fixed], TokenBucket: [bucket], limits: [fixed, bucket] }[algorithm]
    const oracle = tokenBucket(bucket.windowTicks)
    const admitted: { readonly now: number; readonly hits: number }[] = []
    const record = (hits: number, outcomes: readonly LimitOutcome[]) => {
      if (!outcomes.every(each => each.admitted)) return
      const [{ atMicros } = {}] = outcomes
      const now = atMicros === undefined ? opened.decidedMs(outcomes) : atMicros / 1_000
      admitted.push({ now, hits })
    }
    const places = [0, 1, 2]
    const callOnce = (place: number, hits: number) => {
      const outcomes = ask(
        opened.processes[place],
        checks.map(check => ({ ...check, hits })),
      )
      if (!(outcomes instanceof Promise)) {
        leased += 1
        record(hits, outcomes)
        return
      }
      outcomes.then(
        later => record(hits, later),
        () => {},
      )
    }
    for (const { pauseMs, process, what, hits, times } of steps) {
      await opened.pass(pauseMs)
      const place = places[process] ?? 0
      for (let call = 0; what === 'call' && call < times; call += 1) {
        callOnce(place, hits === 'burst' ? burst : hits)
        await opened.pass(1)
      }
      if (what === 'call') continue
      if (what === 'stop') void opened.processes[place]?.close()
      // Another process takes the place of one that was killed or has stopped.
      if (place < 3) places[process] = place + 3
    }
    await opened.pass(3_000)
    admitted.sort((a, b) => a.now - b.now)
    const sum = admitted.reduce((sum, { hits }) => sum + hits, 0)
    if (checks.includes(fixed)) assert.ok(sum <= limit, `${sum} of ${limit} in the window`)
    if (!checks.includes(bucket)) return
    for (const { now, hits } of admitted) {
      assert.ok(oracle.call({ now, hits, limit, burst, countRejected: false }, true), `${hits} at ${now}`)
    }
  })
  await fc.assert(isKept, { numRuns })
  assert.ok(leased > numRuns, `${leased} calls were decided from leases`)
})
