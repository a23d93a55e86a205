import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { watchBackendFailures } from './backend-failures.ts'
import type { Replica } from './provider.ts'

/** Watches the workload `ratelimit`. The test chooses which problems its replicas report. */
function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let replicas: readonly Replica[] = []
  let changed = (_: string) => {}
  const failures = watchBackendFailures({
    infrastructure: {
      observe: () => replicas,
      onChange(listener) {
        changed = listener
      },
    },
    workloads: ['ratelimit'],
    holdMs: 60_000,
  })
  t.after(failures.stop)
  const changes: string[] = []
  failures.onChange(workload => changes.push(failures.get(workload) === undefined ? 'answers' : 'fails'))
  function report(problems: readonly (string | undefined)[], ready = true): void {
    replicas = problems.map((problem, index) => ({
      name: `ratelimit-${index}`,
      uid: `${index}`,
      ready,
      reason: '',
      restarts: 0,
      addresses: {},
      ...(problem !== undefined && { backendProblem: problem }),
    }))
    changed('ratelimit')
  }
  return { failures, changes, report }
}

test('a failure keeps the cause of its first report, and ends after a minute without one', t => {
  const { failures, changes, report } = open(t)
  report([undefined, 'refused'])
  const message = failures.get('ratelimit') ?? ''
  assert.match(message, /^The backend of ratelimit fails\. ratelimit-1: refused\. /)
  report(['reset', 'reset'])
  assert.equal(failures.get('ratelimit'), message)
  report([undefined, undefined])
  t.mock.timers.tick(59_999)
  assert.deepEqual(changes, ['fails'])
  t.mock.timers.tick(1)
  assert.deepEqual(changes, ['fails', 'answers'])
  assert.equal(failures.get('ratelimit'), undefined)
})

test('repeated failures of a backend are one failure', t => {
  const { changes, report } = open(t)
  for (let round = 0; round < 100; round++) {
    report(['refused'])
    report([undefined])
    t.mock.timers.tick(30_000)
  }
  assert.deepEqual(changes, ['fails'])
})

test('processes that are not ready, and other workloads, report no failure', t => {
  const { failures, changes, report } = open(t)
  report(['refused'], false)
  assert.deepEqual([failures.get('ratelimit'), failures.get('broker'), changes], [undefined, undefined, []])
})
