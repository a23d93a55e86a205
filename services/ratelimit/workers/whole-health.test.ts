import assert from 'node:assert/strict'
import { test } from 'node:test'
import { combineStates, initialState } from './supervisor.ts'
import type { WorkerState } from './worker.ts'

const states: Readonly<Record<string, WorkerState>> = {
  starting: { is: 'absent', reason: 'starting' },
  crashed: { is: 'absent', reason: 'was ended by SIGKILL' },
  healthy: { is: 'healthy', reason: '' },
  ill: { is: 'unhealthy', reason: 'has no domain yet' },
}

/** Each line has the next states of the workers and, behind the arrow, the health that results. */
const life = `
starting starting → unhealthy, worker 0: starting
healthy  starting → unhealthy, worker 1: starting
healthy  crashed  → unhealthy, worker 1: was ended by SIGKILL
healthy  ill      → unhealthy, worker 1: has no domain yet
healthy  healthy  → healthy
ill      healthy  → unhealthy, worker 0: has no domain yet
healthy  crashed  → healthy
healthy  starting → healthy
ill      crashed  → unhealthy, worker 0: has no domain yet
crashed  starting → unhealthy, worker 0: was ended by SIGKILL
crashed  healthy  → healthy
`

test('the service starts with every worker, and is as healthy as those that accept calls', () => {
  let whole = initialState
  for (const line of life.trim().split('\n')) {
    const [workers = '', expected] = line.split(' → ')
    whole = combineStates(
      whole,
      workers
        .trim()
        .split(/ +/)
        .flatMap(word => states[word] ?? []),
    )
    assert.equal(whole.healthy ? 'healthy' : `unhealthy, ${whole.reason}`, expected, line)
  }
})
