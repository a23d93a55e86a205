import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createStats } from '../stats/stats.ts'
import { MergedStats } from './merged-stats.ts'
import { Worker } from './worker.ts'

type WorkerLimits = NonNullable<ConstructorParameters<typeof Worker>[0]['limits']>

const limits: WorkerLimits = {
  heartbeat: { firstSignMs: 10_000, nextSignMs: 10_000 },
  settleMs: 50,
  healthyForMs: 60_000,
  restarts: { initialMs: 10, maxMs: 10, factor: 1 },
}

/** Starts a worker whose processes run this text and send signs of life. */
function keep(t: TestContext, text: string, more: Partial<WorkerLimits> = {}) {
  const alive =
    'setInterval(() => process.send({ type: "alive" }), 20); process.on("disconnect", process.exit);'
  const children: ChildProcess[] = []
  const said: string[] = []
  const stats = createStats()
  const worker = new Worker({
    fork() {
      const child = spawn(process.execPath, ['-e', alive + text], {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      })
      children.push(child)
      return child
    },
    stats: new MergedStats(stats),
    clock: systemClock,
    random: () => 0,
    onChange: () => said.push(`${worker.state.is} ${worker.state.reason}`.trim()),
    onSilent: () => said.push('silent'),
    onEnd: () => {},
    limits: { ...limits, ...more },
  })
  t.after(() => worker.stop(0))
  return { worker, children, said, stats }
}

const health = (healthy: boolean) => `process.send({ type: "health", healthy: ${healthy}, reason: "away" });`

test('the statistics of a killed process are kept, and the next one adds to them', async t => {
  const delta = '{ kind: "counter", index: 0, name: "hits", added: 5 }'
  const { said, stats, children } = keep(
    t,
    `${health(true)} process.send({ type: "statistics", deltas: [${delta}] }, () => process.kill(process.pid, "SIGKILL"))`,
  )
  await waitFor('three processes', () => children.length >= 3)
  assert.ok(stats.counter('hits').value >= 10)
  assert.deepEqual(said.slice(0, 4), ['healthy', 'absent was ended by SIGKILL', 'absent starting', 'healthy'])
})

test('a process without heartbeats is killed and restarted', async t => {
  const { said, children } = keep(t, health(true), { heartbeat: { firstSignMs: 10_000, nextSignMs: 2_000 } })
  await waitFor('the first process', () => said.includes('healthy'))
  children[0]?.kill('SIGSTOP')
  await waitFor('the second process', () => said.filter(word => word === 'healthy').length === 2)
  assert.deepEqual(said, ['healthy', 'silent', 'absent was ended by SIGKILL', 'absent starting', 'healthy'])
})

test('a new process has some time until it counts as unhealthy', async t => {
  const soon = keep(t, `${health(false)} setTimeout(() => { ${health(true)} }, 5)`, { settleMs: 60_000 })
  const late = keep(t, health(false))
  await waitFor('the moment to be over', () => late.said.length > 0)
  assert.deepEqual(late.said, ['unhealthy away'])
  await waitFor('good health', () => soon.said.length > 0)
  assert.deepEqual(soon.said, ['healthy'])
})

test('a question is answered, but not by an ending process; stop prevents a restart', async t => {
  const answering = keep(
    t,
    `process.on("message", m => m.type === "ask" && process.send({ type: "answer", id: m.id, text: m.what }));
     ${health(true)}`,
  )
  const ending = keep(t, `process.on("message", m => m.type === "ask" && process.exit()); ${health(true)}`)
  await waitFor('both', () => answering.said.length + ending.said.length === 2)
  // A busy process may miss the time limit of an answer.
  assert.equal(await waitFor('an answer', () => answering.worker.ask('rules')), 'rules')
  assert.equal(await ending.worker.ask('rules'), '')
  await answering.worker.stop(5_000)
  assert.equal(await answering.worker.ask('rules'), '')
  assert.equal(answering.children.length, 1)
  assert.equal(answering.children[0]?.signalCode, 'SIGTERM')
})

test('a process that does not exit in time is killed', async t => {
  const { worker, said, children } = keep(t, `process.on("SIGTERM", () => {}); ${health(true)}`)
  await waitFor('the process', () => said.includes('healthy'))
  await worker.stop(20)
  assert.equal(children[0]?.signalCode, 'SIGKILL')
})
