import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startRedis } from '../support/redis-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { compareRounds, cpuRatio, rateRatio } from './compare.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { createDecisionLoads, shouldRateLimit } from './decision-load.ts'
import { inTurn } from './in-turn.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { grpcRequest } from './load/requests.ts'
import { cpuMicros } from './process-usage.ts'
import { type MeasuredServer, startOurs, startYardstick } from './servers.ts'

const streams = 100

/** The figures of an independent load generator. It sends one body only, so this is one hot key. */
export const h2loadCase: BenchCase = {
  name: 'h2load',
  title: 'h2load, one hot key, 100 streams in flight',
  needs: ['redis-server', 'h2load'],
  run,
}

interface H2loadFigures {
  readonly cpuMicros: number
  readonly decisionsPerSecond: number
}

async function run(extent: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const place = temporaryFolder('h2load')
  const body = join(place, 'body')
  const questions = userQuestions(1)
  for (const question of questions) writeFileSync(body, grpcRequest(question))
  const servers: MeasuredServer[] = []
  try {
    servers.push(await startOurs({ rules: userRule(generous), redisPort: redis.port }))
    servers.push(await startYardstick('grpc', redis.port, generous))
    // h2load counts an error of gRPC as an answer; this load does not.
    const loads = createDecisionLoads({ protocol: 'grpc', questions, connections: 1, streams, over: false })
    for (const server of servers) {
      const { failed } = await driveFlatOut(loads.uniform(server), { durationMs: extent.firstWarmUpMs })
      if (failed > 0) throw new Error(`${failed} answers of ${server.name} were not as expected`)
    }
    const [ours = [], yardstick = []] = await inTurn(servers, extent.rounds, server =>
      h2load(server, body, extent),
    )
    const rows = compareRounds([rateRatio, cpuRatio], ours, yardstick)
    return { rows, measurements: { ours, yardstick }, notes: [] }
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis.stop()
  }
}

async function h2load({ pid, port }: MeasuredServer, body: string, extent: Extent): Promise<H2loadFigures> {
  const seconds = Math.max(1, Math.round(extent.roundMs / 1000))
  const cpuBefore = cpuMicros(pid)
  const { stdout } = await promisify(execFile)('h2load', [
    ...['-c', '1', '-m', `${streams}`, '-D', `${seconds}`, '-d', body],
    ...['-H', 'content-type: application/grpc', '-H', 'te: trailers'],
    `http://127.0.0.1:${port}${shouldRateLimit}`,
  ])
  const cpu = cpuMicros(pid) - cpuBefore
  const calls = Number(/ (\d+) succeeded/.exec(stdout)?.[1])
  const decisionsPerSecond = Number(/ ([\d.]+) req\/s/.exec(stdout)?.[1])
  return { decisionsPerSecond, cpuMicros: cpu / calls }
}
