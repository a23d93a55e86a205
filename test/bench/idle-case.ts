import { setTimeout as sleep } from 'node:timers/promises'
import { startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { createDecisionLoads } from './decision-load.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { scheduledMicros } from './process-usage.ts'
import { startOurs } from './servers.ts'

/** The CPU time of an idle process, without connections and with many idle ones. */
export const idleCase: BenchCase = {
  name: 'idle',
  title: 'idle, after a load',
  needs: ['redis-server'],
  long: true,
  run,
}

const connections = 100
/** The share of a core in percent. */
const goal = { atMost: 0.2 }
/** V8 compiles and collects for some seconds after a load. */
const settleMs = 6000

async function run({ soakMs, firstWarmUpMs }: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const ours = await startOurs({ rules: userRule(generous), redisPort: redis.port })
  const shape = {
    protocol: 'grpc',
    questions: userQuestions(10_000),
    connections,
    streams: 1,
    over: false,
  } as const
  const load = createDecisionLoads(shape).uniform(ours)
  const durationMs = Math.min(60_000, soakMs)
  const measureIdle = async () => {
    await sleep(settleMs)
    const before = scheduledMicros(ours.pid)
    await sleep(durationMs)
    return (scheduledMicros(ours.pid) - before) / durationMs / 10
  }
  try {
    await driveFlatOut(load, { durationMs: firstWarmUpMs })
    const alone = await measureIdle()
    const listener = { answered() {}, lost() {} }
    const opened = await Promise.all(Array.from({ length: connections }, () => load.open(listener)))
    for (const [call, connection] of opened.entries()) connection.send(load.bodyOf(call), call)
    const connected = await measureIdle()
    for (const connection of opened) connection.close()
    return {
      rows: [row('of a core', alone), row(`of a core, ${connections} idle connections`, connected)],
      measurements: {},
      notes: [`over ${durationMs / 1000} s`],
    }
  } finally {
    await ours.end()
    await redis.stop()
  }
}

function row(what: string, percent: number): GoalRow {
  return { what, unit: '%', figures: [percent], goal, compared: '' }
}
