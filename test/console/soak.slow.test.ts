import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingChromium } from '../support/browser.ts'
import { measureSoak } from './measure-soak.ts'
import { openConsole } from './open-console.ts'
import { growthFaults } from './soak-bounds.ts'

/** `node test/console/soak.ts` is the long form. */
test('no page leaks memory while calls arrive and pages change', { skip: missingChromium }, async t => {
  const site = await openConsole()
  t.after(() => site.close())
  await site.stream('utterance-1')
  const { first, last } = await measureSoak(site, {
    ...{ warmUpMs: 0, measureMs: 0, leastMoves: 40, sampleMs: 3_000, moveMs: 0, callMs: 50 },
    onSample: sample => t.diagnostic(JSON.stringify(sample)),
  })
  assert.deepEqual(growthFaults(first, last), [])
  assert.deepEqual(site.complaints, [])
})

test('a slow run may fill the buffers of the plots, and a leak is found after them', () => {
  const first = { minutes: 1, heapMiB: 20, nodes: 0, listeners: 0, operatorMiB: 90, moves: 0 }
  for (const { from, to, grew, faults } of [
    { from: 1, to: 1.5, grew: 3.6, faults: 1 },
    { from: 1, to: 4, grew: 5.9, faults: 0 },
    { from: 1, to: 4, grew: 6.1, faults: 1 },
    { from: 1, to: 60, grew: 7.1, faults: 1 },
    { from: 6, to: 60, grew: 3.1, faults: 1 },
  ]) {
    const last = { ...first, minutes: to, heapMiB: first.heapMiB + grew }
    assert.equal(
      growthFaults({ ...first, minutes: from }, last).length,
      faults,
      `${grew} MiB from ${from} to ${to}`,
    )
  }
})
