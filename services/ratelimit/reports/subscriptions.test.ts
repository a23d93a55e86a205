import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { noLimit } from '../limiter/decision.ts'
import type { ObserverSlot } from '../limiter/decision-observer.ts'
import { createSubscriptions } from './subscriptions.ts'
import type { WatchReport } from './watches.ts'

const maxTapped = 50
const ttlMs = 60_000

/** Subscriptions whose second passes when `report` is called. */
function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const slot: ObserverSlot = { observer: undefined }
  const reports: WatchReport[] = []
  const subscriptions = createSubscriptions({
    ...{ slot, always: undefined, allowTap: true, maxTapped, clock: systemClock, random: Math.random },
    rules: () => undefined,
    show: entries => entries,
    onReport: report => reports.push(report),
  })
  t.after(() => subscriptions.clear())
  const tap = (id: bigint) =>
    subscriptions.subscribe({ id, what: 'tap', domain: 'shop', rule: '', byRefused: false }, ttlMs)
  function decide(user: number): void {
    const descriptors = [{ entries: [{ key: 'user', value: `${user}` }] }]
    slot.observer?.decided({ domain: 'shop', descriptors, hitsAddend: 1 }, [undefined], [noLimit], 0)
  }
  function report() {
    reports.length = 0
    t.mock.timers.tick(1_000)
    return reports.flatMap(one => (one.what === 'tap' ? [one] : []))
  }
  return { subscriptions, tap, decide, report }
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

test('all taps of a process share its decisions a second, and further taps are refused', t => {
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
