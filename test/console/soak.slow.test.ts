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
