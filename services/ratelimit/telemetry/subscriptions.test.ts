import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Clock } from '@tollway/chassis/clock.ts'
import { noLimit, type ObserverSlot } from '../limiter/decision.ts'
import { hideValues, type ShowEntries } from './hide-values.ts'
import { createSubscriptions } from './subscriptions.ts'
import type { WatchParts, WatchReport } from './watches.ts'

const maxTapped = 50
const ttlMs = 60_000

/** Opens the subscriptions of one worker. A mocked timer makes its seconds pass. */
function openWorker(
  t: TestContext,
  worker: WatchParts['worker'],
  clock: Clock,
  show: ShowEntries = entries => entries,
) {
  const slot: ObserverSlot = { observer: undefined }
  const reports: WatchReport[] = []
  const subscriptions = createSubscriptions({
    slot,
    always: undefined,
    allowTap: true,
    maxTapped,
    worker,
    random: Math.random,
    clock,
    rules: () => undefined,
    show,
    onReport: report => reports.push(report),
  })
  t.after(() => subscriptions.clear())
  const subscribe = (id: bigint, what: 'tap' | 'top', most = Number.POSITIVE_INFINITY) =>
    subscriptions.subscribe({ id, what, domain: 'shop', rule: '', byRefused: false, maxTapped: most }, ttlMs)
  const tap = (id: bigint, most?: number) => subscribe(id, 'tap', most)
  function decide(user: number): void {
    const descriptors = [{ entries: [{ key: 'user', value: `${user}` }] }]
    slot.observer?.decided({ domain: 'shop', descriptors, hitsAddend: 1 }, [undefined], [noLimit], 0)
  }
  /** Returns the reports since the last call. */
  const taken = () => reports.splice(0)
  return { subscriptions, slot, subscribe, tap, decide, taken }
}

const tapsIn = (reports: readonly WatchReport[]) => reports.flatMap(one => (one.what === 'tap' ? [one] : []))

/** Opens subscriptions. A second passes when `report` or `top` is called. */
function open(t: TestContext, show?: ShowEntries) {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let nowMs = 0
  const { taken, ...opened } = openWorker(
    t,
    { index: 0, of: 1 },
    { nowMs: () => nowMs, monotonicMs: () => nowMs },
    show,
  )
  function second() {
    taken()
    nowMs += 1_000
    t.mock.timers.tick(1_000)
    return taken()
  }
  const report = () => tapsIn(second())
  const top = () => second().find(one => one.what === 'top')
  return { ...opened, report, top }
}

test('a tap shows a sample of the whole second, in order, and counts the others', t => {
  const { tap, decide, report } = open(t)
  assert.ok(tap(1n))
  for (let user = 0; user < 1_000; user++) decide(user)
  const [{ decisions, skipped } = assert.fail()] = report()
  assert.deepEqual([decisions.length, skipped], [maxTapped, 950])
  const users = decisions.map(({ entries }) => Number(entries[0]?.value))
  assert.deepEqual(
    users,
    [...users].sort((a, b) => a - b),
  )
  assert.ok(
    users.some(user => user >= 500),
    'the second half of the second is missing',
  )
})

test('all taps of a process share its decisions a second, and further taps are rejected', t => {
  const { subscriptions, tap, decide, report } = open(t)
  for (let id = 1; id <= 3; id++) assert.ok(tap(BigInt(id)))
  for (let user = 0; user < 100; user++) decide(user)
  assert.deepEqual(
    report().map(({ decisions, skipped }) => [decisions.length, skipped]),
    [
      [16, 84],
      [16, 84],
      [16, 84],
    ],
  )
  for (let id = 4; id <= maxTapped; id++) assert.ok(tap(BigInt(id)))
  assert.ok(tap(1n), 'a renewal is not a further tap')
  assert.equal(tap(1_000n), false)
  subscriptions.unsubscribe(1n)
  assert.ok(tap(1_000n))
})

test('a tap reports no more decisions than its subscription asks for, which a renewal can change', t => {
  const { tap, decide, report } = open(t)
  const shown = () => {
    for (let user = 0; user < 100; user++) decide(user)
    return report().map(({ decisions, skipped }) => [decisions.length, skipped])
  }
  assert.ok(tap(1n, 5))
  assert.deepEqual(shown(), [[5, 95]])
  assert.ok(tap(1n, 7))
  assert.deepEqual(shown(), [[7, 93]])
})

test('a subscription that is not renewed ends after its time to live, and nothing is observed then', t => {
  const { tap, report, slot } = open(t)
  assert.ok(tap(1n))
  for (let second = 1; second < 50; second++) assert.equal(report().length, 1)
  assert.ok(tap(1n))
  for (let second = 50; second < 109; second++) assert.equal(report().length, 1, `second ${second}`)
  assert.equal(report().length, 0)
  assert.equal(slot.observer, undefined)
})

test('top keys are the 100 most frequent ones, with a bound for those that are missing', t => {
  const { subscribe, decide, top } = open(t)
  assert.ok(subscribe(1n, 'top'))
  for (let user = 0; user < 300; user++)
    for (let call = 0; call <= Math.max(0, user - 250); call++) decide(user)
  const { keys, missingAtMost } = top() ?? assert.fail()
  assert.equal(keys.length, 100)
  assert.equal(keys[0]?.item[0]?.value, '299')
  assert.ok(missingAtMost > 0 && missingAtMost < 50, `${missingAtMost}`)
})

test('hashed keys: neither the tap nor the top keys have the values of callers', t => {
  const { subscribe, tap, decide, report, top } = open(t, hideValues('salt'))
  assert.ok(tap(1n))
  assert.ok(subscribe(2n, 'top'))
  decide(7)
  decide(7)
  const hashed = top()?.keys[0]?.item[0]
  assert.match(`${hashed?.value}`, /^[0-9a-f]{16}$/)
  decide(7)
  assert.deepEqual(report()[0]?.decisions[0]?.entries, [hashed])
})

for (const workers of [3, 64])
  test(`${workers} workers of a pod report at most ${maxTapped} decisions a second, each in its turn`, t => {
    let second = 0
    t.mock.timers.enable({ apis: ['setInterval'] })
    const pod = Array.from({ length: workers }, (_, index) =>
      openWorker(t, { index, of: workers }, { nowMs: () => second * 1_000, monotonicMs: () => 0 }),
    )
    for (const { tap } of pod) assert.ok(tap(1n))
    const shown = pod.map(() => 0)
    for (second = 1; second <= workers; second++) {
      for (const { decide } of pod) for (let user = 0; user < 100; user++) decide(user)
      t.mock.timers.tick(1_000)
      const counts = pod.map(({ taken }) =>
        tapsIn(taken()).reduce((sum, { decisions }) => sum + decisions.length, 0),
      )
      assert.equal(
        counts.reduce((sum, count) => sum + count, 0),
        maxTapped,
      )
      for (const [index, count] of counts.entries()) shown[index] = (shown[index] ?? 0) + count
    }
    assert.ok(
      shown.every(count => count > 0),
      `${shown}`,
    )
  })
