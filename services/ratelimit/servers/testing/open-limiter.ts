import type { Server } from 'node:http'
import type { TestContext } from 'node:test'
import type { Clock } from '@tollway/chassis/clock.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import type { RateLimitRequest } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { CountersError, maxCount } from '../../counters/counters.ts'
import { createMemoryCounters } from '../../counters/memory.ts'
import type { Counting } from '../../limiter/counting.ts'
import type { DecisionRequest, RateLimitDecision } from '../../limiter/decision.ts'
import { RuleLimiter } from '../../limiter/limiter.ts'
import { compile } from '../../rules/compile.ts'
import { type Unit, units } from '../../rules/units.ts'
import { parseYaml } from '../../rules/yaml/parse-yaml.ts'
import { createLimitStats } from '../../stats/limit-stats.ts'
import { createStats } from '../../stats/stats.ts'
import { overrideUnits } from '../wire-enums.ts'

/** 42 seconds before the end of a minute. */
export const nowSeconds = 1_000_038

const clock: Clock = { nowMs: () => nowSeconds * 1000, monotonicMs: () => 0 }

const yaml = `
domain: d
descriptors:
  - {key: user, rate_limit: {name: x, unit: minute, requests_per_unit: 1}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
`

/** Opens a limiter with a few rules, and counters in memory or counters that fail with this text. */
export function openLimiter(failure?: string) {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const parsed = parseYaml('test.yaml', yaml)
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems))
  const rules = compile([parsed.value], { mergeDomainConfigs: false, attach: limitStats.attach })
  const limiter = new RuleLimiter({
    rules: () => rules,
    counting: failure === undefined ? createMemoryCounters({ clock }) : failingCounters(failure),
    stats,
    limitStats,
    clock,
    random: () => 0,
    cacheKeyPrefix: '',
    expirationJitterMaxSeconds: 0,
    nearLimitRatio: 0.8,
    shadowMode: false,
    quotaMode: false,
    dynamicMetadata: false,
  })
  return { limiter, stats }
}

function failingCounters(text: string): Counting {
  const fail = () => Promise.reject(new CountersError(text))
  return { add: fail, admit: fail }
}

/** Converts a generated message to a request. Tests compare the handwritten decoders with it. */
export function toDecisionRequest(message: RateLimitRequest): DecisionRequest {
  return {
    domain: message.domain,
    descriptors: message.descriptors.map(({ entries, hitsAddend, isNegativeHits, limit }) => ({
      entries: entries.map(({ key, value }) => ({ key, value })),
      hitsAddend: hitsAddend === undefined ? undefined : countOf(hitsAddend),
      givesBack: isNegativeHits,
      limit: limit && { requestsPerUnit: limit.requestsPerUnit, unit: overrideUnits[limit.unit] },
    })),
    hitsAddend: message.hitsAddend,
  }
}

/** A value above `maxCount` becomes `maxCount`. */
function countOf(hits: bigint): number {
  return hits > BigInt(maxCount) ? maxCount : Number(hits)
}

const uint32 = fc.oneof(fc.constant(0), fc.nat(300), fc.integer({ min: 0, max: 0xffffffff }))
const ofUnit = { requestsPerUnit: uint32, unit: fc.constantFrom<Unit | undefined>(...units) }
const ofConcurrency = {
  requestsPerUnit: fc.integer({ min: 1, max: 0xffffffff }),
  unit: fc.constant(undefined),
}
const limitOf = (fields: typeof ofUnit) =>
  fc.record({
    ...fields,
    name: fc.oneof(fc.constant(''), fc.string({ unit: 'grapheme', size: 'medium' })),
    resetSeconds: fc.option(fc.nat(31_536_000), { nil: undefined }),
  })
const limits = fc.oneof({ weight: 9, arbitrary: limitOf(ofUnit) }, limitOf(ofConcurrency))
const statuses = fc.record(
  { over: fc.boolean(), remaining: uint32, limit: limits },
  { requiredKeys: ['over', 'remaining'] },
)

/** Every kind of decision of a limiter. */
export const decisions: fc.Arbitrary<RateLimitDecision> = fc.record({
  over: fc.boolean(),
  statuses: fc.array(statuses),
})

/** Binds the server to a free port until the test ends; returns `http://127.0.0.1:port`. */
export async function listen(t: TestContext, server: Server): Promise<string> {
  const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
  t.after(() => closeHttp(server, 0))
  return `http://127.0.0.1:${port}`
}
