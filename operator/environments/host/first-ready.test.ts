import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Replica } from '../../infrastructure/provider.ts'
import { firstReady } from './first-ready.ts'

const deadlineMs = 20

/** Waits for one process. The test sets whether it is ready and whether the feed is published. */
function oneProcess(t: TestContext) {
  const state = { ready: false, fed: true }
  const listeners: ((workload: string) => void)[] = []
  const stopping = new AbortController()
  const replica = (): Replica => ({
    name: 'ratelimit-0',
    uid: 'a',
    restarts: 0,
    addresses: {},
    ready: state.ready,
    reason: state.ready ? '' : 'waits for its configuration',
  })
  const options: Parameters<typeof firstReady>[0] = {
    host: { observe: () => [replica()], onChange: listener => void listeners.push(listener) },
    workloads: [{ name: 'ratelimit' }],
    signal: stopping.signal,
    deadlineMs,
    isFeedPublished: () => state.fed,
    advice: 'read the log',
  }
  const change = (to: Partial<typeof state>) => {
    Object.assign(state, to)
    for (const listener of listeners) listener('ratelimit')
  }
  const ready = firstReady(options)
  t.after(() => {
    ready.catch(() => {})
    stopping.abort(new Error('the test ended'))
  })
  return { ready, change, stopping }
}

test('the wait ends when all processes are ready', async t => {
  const { ready, change } = oneProcess(t)
  change({ ready: true })
  await ready
})

test('processes that are not ready by the deadline are reported with their reasons', async t => {
  await assert.rejects(oneProcess(t).ready, {
    name: 'InfrastructureError',
    message:
      'the services do not accept calls after 0.02 s: ratelimit-0: waits for its configuration; read the log',
  })
})

test('the deadline begins with the first snapshot of the feed', async t => {
  const { ready, change } = oneProcess(t)
  change({ fed: false })
  assert.equal(await Promise.race([ready, pause(10 * deadlineMs, 'still waiting')]), 'still waiting')
  change({ fed: true })
  await assert.rejects(ready, { name: 'InfrastructureError' })
  const corrected = oneProcess(t)
  corrected.change({ fed: false })
  await pause(2 * deadlineMs)
  corrected.change({ fed: true, ready: true })
  await corrected.ready
})

test('a stop ends the wait', async t => {
  const { ready, change, stopping } = oneProcess(t)
  change({ fed: false })
  stopping.abort(new Error('stopped'))
  await assert.rejects(ready, { message: 'stopped' })
})
