import assert from 'node:assert/strict'
import { test } from 'node:test'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createRefreshSchedule } from './refresh-schedule.ts'

test('one at a time, however often it is asked for, and again after what came meanwhile', async t => {
  let runs = 0
  let running = 0
  let finish = () => {}
  const schedule = createRefreshSchedule({
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
    hurryMs: 1,
    maxHurryMs: 5,
    random: Math.random,
  })
  t.after(() => schedule.close())
  await waitFor('the first', () => runs === 1)
  for (let call = 0; call < 5; call += 1) schedule.soon()
  finish()
  await waitFor('the second', () => runs === 2)
  finish()
  await waitFor('its end', () => running === 0)
  schedule.soon()
  await waitFor('the third', () => runs === 3)
  finish()
})

test('it hurries until all is settled, and ends when it is closed', async () => {
  let runs = 0
  const schedule = createRefreshSchedule({
    async refresh() {
      runs += 1
    },
    isSettled: () => runs >= 5,
    everyMs: 1_000_000,
    hurryMs: 1,
    maxHurryMs: 5,
    random: () => 0,
  })
  await waitFor('five runs', () => runs === 5)
  schedule.close()
  schedule.soon()
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(runs, 5)
})
