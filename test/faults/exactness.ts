import { startMemcached } from '../support/memcached-server.ts'
import { startRedis } from '../support/redis-server.ts'
import { type Backend, memcachedBackend, type OpenBackend, redisBackend } from './backends.ts'
import type { FaultCase } from './fault-case.ts'
import { openFleet } from './fleet.ts'
import { countFlatOut, encodeCall, limitedKey, planCalls } from './load/calls.ts'

/** No fault, but many processes: each process sees only its share of the calls. */
function exactness(name: string, program: string, openBackend: OpenBackend<Backend>): FaultCase {
  return {
    name,
    title: `no fault: many processes and connections count one key in ${program}`,
    needs: [program],
    async run({ seed, exactness: { processes, connections, limit } }) {
      // A late answer is counted and not admitted, and this case is not about time.
      const fleet = await openFleet({
        openBackend,
        seed,
        processes,
        limit,
        settings: { BACKEND_DEADLINE: '30s', KVSTORE_TIMEOUT: '30s' },
      })
      try {
        const ports = fleet.services.map(({ grpcPort }) => grpcPort)
        const plan = planCalls(name)
        const calls = 2 * limit
        const tally = await countFlatOut(ports, connections, calls, encodeCall('limited', name))
        const counted = await fleet.backend.count(limitedKey(plan))
        const violations: string[] = []
        if (tally.failed > 0) violations.push(`${tally.failed} calls failed: ${tally.failure}`)
        if (tally.ok !== limit) violations.push(`${tally.ok} calls were admitted of ${limit}`)
        if (tally.over !== calls - limit) violations.push(`${tally.over} calls were over the limit`)
        if (counted !== calls) violations.push(`${counted} hits were counted of ${calls} calls`)
        return {
          counts: { limit, admitted: tally.ok, unanswered: Math.max(0, counted - tally.ok - tally.over) },
          goals: [],
          violations,
          notes: [`${processes} processes, ${connections} connections, ${calls} calls`],
        }
      } finally {
        await fleet.close()
      }
    },
  }
}

export const exactnessCases: readonly FaultCase[] = [
  exactness('exact-redis', 'redis-server', async () => {
    const server = await startRedis()
    return redisBackend(server, `127.0.0.1:${server.port}`)
  }),
  exactness('exact-memcached', 'memcached', async () => {
    const server = await startMemcached()
    return memcachedBackend(server, server.address)
  }),
]
