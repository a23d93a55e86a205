import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { makeLimit, makeRule } from '../../services/ratelimit/rules/testing/make-rule.ts'
import { callRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { domainOf, startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const concurrency = makeLimit(0, '', { algorithm: 'Concurrency', maxConcurrent: 3, leaseSeconds: 3_600 })

/** A rule of at most three hits for each algorithm. */
const domain: RateLimitDomain = {
  ...domainOf('domain: shop'),
  descriptors: [
    makeRule('fixed', { rateLimit: makeLimit(3, 'day') }),
    makeRule('sliding', { rateLimit: makeLimit(3, 'year', { algorithm: 'SlidingWindow' }) }),
    makeRule('bucket', { rateLimit: makeLimit(3, 'year', { algorithm: 'TokenBucket' }) }),
    makeRule('concurrency', { rateLimit: concurrency }),
    makeRule('limits', { limits: [makeLimit(4, 'day'), concurrency] }),
  ],
}

const stores: Readonly<Record<string, (t: TestContext) => Promise<Readonly<Record<string, string>>>>> = {
  memory: async () => ({}),
  Redis: async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const url = `127.0.0.1:${redis.port}`
    return { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: url }
  },
}

for (const [name, openStore] of Object.entries(stores)) {
  test(`Kuadrant's checks and reports with every algorithm, and their replay, in ${name}`, async t => {
    if (name === 'Redis' && !requireProgram(t, 'redis-server')) return
    const { port, sessions } = await startReportingOperator(t, domain)
    const { grpcPort } = await startReportingProcess(t, port, 'a', await openStore(t))
    await waitFor('the domain at the process', async () => (await sessions.domains()).items[0]?.pods === 1)
    const { shouldRateLimit, checkRateLimit, report } = callRateLimit(t, grpcPort)
    for (const { key } of domain.descriptors) {
      const request = (hits: number, isNegativeHits = false) => ({
        domain: 'shop',
        descriptors: [{ entries: [{ key, value: 'alice' }], hitsAddend: BigInt(hits), isNegativeHits }],
      })
      const isOver = async (answer: ReturnType<typeof report>) =>
        (await answer).overallCode === Code.OVER_LIMIT
      const answers = [
        await isOver(checkRateLimit(request(9))),
        await isOver(checkRateLimit(request(9))),
        await isOver(report(request(5))),
        await isOver(checkRateLimit(request(1))),
        await isOver(shouldRateLimit(request(3, true))),
        await isOver(checkRateLimit(request(1))),
        await isOver(shouldRateLimit(request(1))),
        await isOver(checkRateLimit(request(1))),
        await isOver(shouldRateLimit(request(1))),
      ]
      const expected = [false, false, false, true, false, false, false, true, true]
      assert.deepEqual(answers, expected, key)
    }
    const hits = 5 + 1 + 1
    const rules = await waitFor('the totals of all calls', async () => {
      const { items } = await sessions.rules('shop')
      return items.length === 6 && items.every(({ calls }) => calls === 8) && items
    })
    // Statistics of a fixed window count only the rejected hits of a call that is partly over.
    const real = rules.map(({ rule, refused }) => ({ rule, allowed: hits - refused, refused }))
    const { bytes: resource } = encodeRateLimitDomain(domain)
    const signal = AbortSignal.timeout(60_000)
    const steps = await Array.fromAsync(sessions.whatIf({ domain: 'shop', resource }, signal))
    const result = steps.find(step => step.kind === 'result')?.result
    const pick = (of: readonly { rule: string; allowed: number; refused: number }[] = []) =>
      of.map(({ rule, allowed, refused }) => `${rule} ${allowed} ${refused}`).sort()
    assert.deepEqual(pick(result?.now), pick(real))
    assert.deepEqual(pick(result?.proposed), pick(real))
  })
}
