import { driveFlatOut } from '../bench/load/flat-out.ts'
import { grpcLoad } from '../bench/load/grpc-connection.ts'
import { latencyFigures } from '../bench/percentiles.ts'
import { rssMiB } from '../bench/process-usage.ts'
import { openRedis } from './backends.ts'
import type { FaultCase } from './fault-case.ts'
import { planCalls } from './load/calls.ts'

const connections = 10
const streams = 100
const settleMs = 1_000
const limit = 1_000_000
const growthGoalMiB = 64

/** Sends as many calls as the service accepts while Redis hangs: nothing may pile up. */
export const fullRateCase: FaultCase = {
  name: 'full-rate',
  title: 'black hole, at as many calls as the service accepts',
  needs: ['redis-server'],
  async run({ seed, deadlineMs, holdsMs: [durationMs = 0], setups }) {
    const settings = { BACKEND_DEADLINE: `${deadlineMs}ms` }
    const { backend, service } = await setups.open({ openBackend: openRedis, seed, limit, settings })
    const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
    const { bodyOf } = planCalls('full-rate')
    const open = grpcLoad({ port: service.grpcPort, path, expects: () => true })
    const drive = (ms: number) => driveFlatOut({ open, connections, streams, bodyOf }, { durationMs: ms })
    await drive(settleMs)
    await backend.proxy.setFault({ kind: 'silence' })
    await drive(settleMs)
    const beforeMiB = rssMiB(service.program.pid)
    // A connection that gets a GOAWAY fails the load.
    const { calls, failed, seconds, latenciesMs } = await drive(durationMs)
    const rssGrowthMiB = Math.max(0, rssMiB(service.program.pid) - beforeMiB)
    await backend.proxy.setFault()
    const figures = latencyFigures(latenciesMs)
    const violations = failed === calls ? [] : [`${calls - failed} calls were decided without Redis`]
    return {
      answers: {
        ...figures,
        maxMs: latenciesMs.reduce((max, ms) => Math.max(max, ms), 0),
        openP99Ms: undefined,
        loadLate: undefined,
        ok: 0,
        over: 0,
        errors: failed,
        messages: [],
      },
      rssGrowthMiB,
      goAways: 0,
      goals: [
        { what: 'growth of memory', unit: 'MiB', goal: { atMost: growthGoalMiB }, figure: rssGrowthMiB },
      ],
      violations,
      notes: [`${calls} calls in ${seconds.toFixed(0)} s, ${connections * streams} in flight`],
    }
  },
}
