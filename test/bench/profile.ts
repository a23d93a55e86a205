import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startRedis } from '../support/redis-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { type CpuProfile, moduleBelow, type SelfTime, selfTimes } from './cpu-profile.ts'
import { createDecisionLoads } from './decision-load.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { startOurs } from './servers.ts'

/** Profiles the service under 10,000 uniform keys on one connection with 100 streams in flight. */
export async function profileDecisions(durationMs: number, warmUpMs: number): Promise<readonly SelfTime[]> {
  const folder = temporaryFolder('bench-profile')
  const redis = await startRedis()
  try {
    const nodeOptions = ['--cpu-prof', '--cpu-prof-dir', folder]
    const ours = await startOurs({ rules: userRule(generous), redisPort: redis.port, nodeOptions })
    const loads = createDecisionLoads({
      protocol: 'grpc',
      questions: userQuestions(10_000),
      connections: 1,
      streams: 100,
      over: false,
    })
    let span = { fromMicros: 0, toMicros: 0 }
    try {
      await driveFlatOut(loads.uniform(ours), { durationMs: warmUpMs })
      const fromMicros = monotonicMicros()
      await driveFlatOut(loads.uniform(ours), { durationMs })
      span = { fromMicros, toMicros: monotonicMicros() }
    } finally {
      // The profile is written when the process ends.
      await ours.end()
    }
    const [file = ''] = readdirSync(folder)
    const profile = JSON.parse(readFileSync(join(folder, file), 'utf8')) as CpuProfile
    return selfTimes(profile, moduleBelow(root), span)
  } finally {
    await redis.stop()
  }
}

/** The clock of V8's profiles, which all processes of a machine share. */
function monotonicMicros(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
