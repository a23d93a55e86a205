import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEventRecorder } from './events.ts'

const regarding = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'told', namespace: 'x', uid: '1' },
}

/** Records this number of Events. Resolves with the reports of losses. */
async function losses(events: number, create: () => Promise<never>, settleEach = false): Promise<string[]> {
  const lost: string[] = []
  let ids = 0
  const recorder = createEventRecorder({
    client: { create },
    reportingInstance: 'operator-0',
    newId: () => `${++ids}`,
    onLost: (count, cause) => lost.push(`${count}: ${cause}`),
    clock: { nowMs: () => 0, monotonicMs: () => 0 },
  })
  for (let index = 0; index < events; index++) {
    recorder.record({ regarding, type: 'Normal', reason: 'Told', action: 'Tell', note: `${index}` })
    if (settleEach) await new Promise(setImmediate)
  }
  await recorder.settled()
  return lost
}

const created = async () => regarding as never

test('Events that are dropped are counted in one report', async () => {
  assert.deepEqual(await losses(60, created), ['10: 50 Events wait for the API server'])
  assert.deepEqual(await losses(130, created, true), ['30: more than 5 Events a second'])
})

test('Events that the API server rejects are counted in one report with the cause', async () => {
  const rejected = async () => {
    throw new Error('forbidden')
  }
  assert.deepEqual(await losses(3, rejected), ['3: Error: forbidden'])
  assert.deepEqual(await losses(3, created), [])
})
