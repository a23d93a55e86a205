import assert from 'node:assert/strict'
import { test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { RefreshSchedule } from './refresh-schedule.ts'

test('refreshes never overlap, and a request during one causes another one', async t => {
  let runs = 0
  let running = 0
  let finish = () => {}
  const schedule = new RefreshSchedule({
    async refresh() {
      runs += 1
      running += 1
      assert.equal(running, 1)
      await new Promise<void>(resolve => {
        finish = resolve
      })
      running -= 1
    },
    isSettled: () => true,
    everyMs: 1_000_000,
    urgentMs: 1,
    maxUrgentMs: 5,
    random: Math.random,
  })
  t.after(() => schedule.close())
  await waitFor('the first', () => runs === 1)
  for (let call = 0; call < 5; call += 1) schedule.refreshSoon()
  finish()
  await waitFor('the second', () => runs === 2)
  finish()
  await waitFor('its end', () => running === 0)
  schedule.refreshSoon()
  await waitFor('the third', () => runs === 3)
  finish()
})

test('a schedule refreshes often until settled, and stops when closed', async () => {
  let runs = 0
  const schedule = new RefreshSchedule({
    async refresh() {
      runs += 1
    },
    isSettled: () => runs >= 5,
    everyMs: 1_000_000,
    urgentMs: 1,
    maxUrgentMs: 5,
    random: () => 0,
  })
  await waitFor('five runs', () => runs === 5)
  schedule.close()
  schedule.refreshSoon()
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(runs, 5)
})

test('constant requests are delayed more and more, until a quiet period', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 0
  let runs = 0
  const schedule = new RefreshSchedule({
    async refresh() {
      runs += 1
    },
    isSettled: () => true,
    everyMs: 5_000,
    urgentMs: 100,
    maxUrgentMs: 500,
    random: () => 0,
    clock: { nowMs: () => 0, monotonicMs: () => nowMs },
  })
  async function pass(ms: number, storm: boolean): Promise<number> {
    const before = runs
    for (const endMs = nowMs + ms; nowMs < endMs; nowMs += 1) {
      if (storm) for (let reply = 0; reply < 10; reply += 1) schedule.refreshSoon()
      t.mock.timers.tick(1)
      await Promise.resolve()
    }
    return runs - before
  }
  await pass(1_000, false)
  const inStorm = await pass(60_000, true)
  assert.ok(inStorm >= 100 && inStorm <= 130, `${inStorm} refreshes in a minute, for 600,000 replies`)
  await pass(6_000, false)
  assert.equal(await pass(150, true), 1, 'the first delay is short again')
  schedule.close()
})
