import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { GrpcError } from '../status.ts'
import { ReconnectingCall, type ReconnectingCallOptions } from './reconnecting-call.ts'

type Attempt = PromiseWithResolvers<void> & { readonly signal: AbortSignal; readonly onWorking: () => void }

/** Starts a call whose attempts the test ends. The test sets the clock, and the pauses last milliseconds. */
function startCall(t: TestContext, options: Partial<ReconnectingCallOptions> = {}) {
  const attempts: Attempt[] = []
  const states: string[] = []
  let nowMs = 0
  const call = new ReconnectingCall({
    callOnce(signal, onWorking) {
      const attempt = { ...Promise.withResolvers<void>(), signal, onWorking }
      signal.addEventListener('abort', () => attempt.reject(new Error('aborted')))
      attempts.push(attempt)
      return attempt.promise
    },
    backoff: createBackoff({ initialMs: 1, maxMs: 4, factor: 2, jitter: 0, random: () => 0 }),
    clock: { monotonicMs: () => nowMs },
    onState: state =>
      states.push(
        state.kind === 'working'
          ? 'working'
          : `${state.error.message} ${state.retryMs}${state.isRepeated ? ' repeated' : ''}`,
      ),
    ...options,
  })
  call.start()
  t.after(() => call.stop())
  /** Waits for the attempt with this number, from 1. */
  const attempt = (number: number) => waitFor(`attempt ${number}`, () => attempts[number - 1])
  return {
    attempts,
    states,
    stop: () => call.stop(),
    attempt,
    async fail(number: number, error: Error, afterMs = 0) {
      const { reject } = await attempt(number)
      nowMs += afterMs
      reject(error)
    },
  }
}

const lost = new GrpcError('UNAVAILABLE', 'lost')

test('a reconnecting call is made again with growing delays, which start again when it has worked', async t => {
  const { fail, attempt, states } = startCall(t)
  for (const number of [1, 2, 3, 4]) await fail(number, lost)
  const { onWorking, resolve } = await attempt(5)
  onWorking()
  onWorking()
  resolve()
  await attempt(6)
  assert.deepEqual(states, [
    ...['lost 1', 'lost 2 repeated', 'lost 4 repeated', 'lost 4 repeated'],
    ...['working', 'the server ended the stream 1'],
  ])
})

test('a reconnecting call that lasted has worked, and may be made again at once', async t => {
  for (const [reopensAtOnce, expected] of [
    [false, ['lost 1', 'lost 2 repeated', 'lost 1 repeated', 'lost 2 repeated']],
    // An attempt that is repeated at once is not a failure.
    [true, ['lost 1', 'lost 2 repeated', 'lost 0 repeated', 'lost 1 repeated']],
  ] as const) {
    const { fail, attempt, states } = startCall(t, { establishedMs: 10, reopensAtOnce })
    for (const number of [1, 2]) await fail(number, lost)
    await fail(3, lost, 11)
    await fail(4, lost)
    await attempt(5)
    assert.deepEqual(states, expected)
  }
})

test('a server without the method is asked again after a longer delay, and the backoff does not grow', async t => {
  const { fail, attempt, states } = startCall(t, { unimplementedMs: 7 })
  const unknown = new GrpcError('UNIMPLEMENTED', 'unknown method')
  for (const number of [1, 2]) await fail(number, unknown)
  await fail(3, lost)
  await attempt(4)
  assert.deepEqual(states, ['unknown method 7', 'unknown method 7 repeated', 'lost 1'])
})

test('a stopped call ends, reports nothing, and is not made again', async t => {
  const { attempt, attempts, states, stop } = startCall(t)
  const { signal, onWorking } = await attempt(1)
  const stopped = stop()
  onWorking()
  await stopped
  assert.ok(signal.aborted)
  assert.deepEqual([attempts.length, states], [1, []])
  const waiting = startCall(t, { unimplementedMs: 60_000 })
  await waiting.fail(1, new GrpcError('UNIMPLEMENTED', 'unknown method'))
  await waitFor('the wait', () => waiting.states.length === 1)
  await waiting.stop()
  assert.equal(waiting.attempts.length, 1)
})
