import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { AsyncQueue } from '@tollway/grpc/async-queue.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { Call, Method } from '@tollway/grpc/server.ts'
import {
  type RateLimitQuotaResponse_BucketActionSchema,
  RateLimitQuotaResponseSchema,
  type RateLimitQuotaUsageReports,
  type RateLimitQuotaUsageReports_BucketQuotaUsage,
  RateLimitQuotaUsageReportsSchema,
} from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import type { RateLimitStrategySchema } from '@tollway/proto/envoy/type/v3/ratelimit_strategy'
import { CORE_SCHEMA, load } from 'js-yaml'
import { toEnvoyQuota } from '../../operator/kinds/rate-limit-config/envoy-quota.ts'
import { translateRateLimitConfig } from '../../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { freePorts } from '../support/free-ports.ts'
import { type QuotaEnvoy, quotaCluster, startQuotaEnvoy } from '../support/quota-envoy.ts'
import { missingProgram } from '../support/require-server.ts'
import { type Cleanup, root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** Of buckets. */
const reportingIntervals = [
  ['reported', '1s'],
  ['reported-5', '5s'],
  ['reported-10', '10s'],
] as const

/**
 * What Envoy's filter rate_limit_quota does with the assignments of a quota service, as far as its documentation does not
 * say it or says something else. The quota service relies on each of these facts. Decision record 0098 lists them.
 */
suite('the quota filter of Envoy', { skip: missingProgram('envoy'), concurrency: true }, () => {
  const ends: (() => Promise<void>)[] = []
  const cleanup: Cleanup = { after: end => void ends.push(end) }
  let service: ScriptedService
  let envoy: QuotaEnvoy

  before(async () => {
    service = await ScriptedService.start(cleanup)
    envoy = await startQuotaEnvoy(cleanup, filterOf(bucketMatchers), service.port)
  })
  after(async () => {
    for (const end of ends.reverse()) await end()
  })

  /** Requests once, so that the bucket exists, and resolves when the assignment is in force. */
  async function open(bucket: string, strategy: Strategy, ttlSeconds?: number): Promise<void> {
    service.assign(bucket, strategy, ttlSeconds)
    assert.equal(await envoy.request({ bucket }), 200, 'the first request is admitted without an assignment')
    await service.reported(bucket)
    await applied()
  }

  /** Resolves when Envoy has applied all actions that were sent before. */
  const applied = () => applyAll(service, envoy)

  async function countAdmitted(bucket: string, requests: number): Promise<number> {
    let admitted = 0
    for (let made = 0; made < requests; made++) if ((await envoy.request({ bucket })) === 200) admitted++
    return admitted
  }

  const strategies: readonly (readonly [string, Strategy, number])[] = [
    ['blanket ALLOW_ALL', { case: 'blanketRule', value: 0 }, 12],
    ['blanket DENY_ALL', { case: 'blanketRule', value: 1 }, 0],
    ['a token bucket', tokenBucket(5, 1, 60), 5],
    ['a token bucket with tokens_per_fill 0, which is never filled', tokenBucket(5, 0), 5],
    [
      'requests_per_time_unit, which is ignored',
      { case: 'requestsPerTimeUnit', value: { requestsPerTimeUnit: 1n, timeUnit: 3 } },
      12,
    ],
    ['a fill_interval below one second, which divides by 0: no limit', tokenBucket(3, 1, 0.5), 12],
  ]
  for (const [index, [name, strategy, admitted]] of strategies.entries()) {
    test(`admits ${admitted} of 12 requests at once with ${name}`, async () => {
      await open(`strategy-${index}`, strategy)
      assert.equal(await countAdmitted(`strategy-${index}`, 12), admitted)
    })
  }

  test('fills a bucket continuously, also with an interval of minutes and hours', async t => {
    // A bucket that holds several tokens loses none while this process stands still.
    const held = 20
    const rates = { 'per-minute': [100, 60], 'per-hour': [9000, 3600], 'per-day': [86_400, 86_400] } as const
    for (const [bucket, [tokens, seconds]] of Object.entries(rates)) {
      await open(bucket, tokenBucket(held, tokens, seconds))
    }
    await Promise.all(
      Object.entries(rates).map(async ([bucket, [tokens, seconds]]) => {
        await countAdmitted(bucket, held + 2)
        const startMs = performance.now()
        let admitted = 0
        while (performance.now() - startMs < 20_000) {
          admitted += await countAdmitted(bucket, 1)
          await pause(20)
        }
        const expected = ((performance.now() - startMs) / 1000) * (tokens / seconds)
        t.diagnostic(`${bucket}: ${admitted} admitted, ${expected.toFixed(1)} expected`)
        // A request finds a token up to 20 ms late, and the first may find most of one.
        assert.ok(admitted <= expected + 1 && admitted >= expected * 0.9 - 1, `${admitted} of ${expected}`)
      }),
    )
  })

  test('compares buckets by max_tokens, tokens_per_fill and the nanos of fill_interval', async () => {
    await open('compared', tokenBucket(1, 100))
    const fills = async () => {
      await countAdmitted('compared', 3)
      await pause(200)
      return (await countAdmitted('compared', 1)) === 1
    }
    assert.ok(await fills())
    service.push('compared', tokenBucket(1, 100, 86_400))
    await applied()
    assert.ok(await fills(), 'an interval of other seconds is ignored')
    service.push('compared', tokenBucket(1, 101, 86_400))
    await applied()
    assert.ok(!(await fills()), 'it is applied together with another tokens_per_fill')
    service.push('compared', tokenBucket(1, 101, 1))
    await applied()
    assert.ok(!(await fills()), 'seconds are ignored again')
    service.push('compared', tokenBucket(1, 101, 1.5))
    await applied()
    assert.ok(await fills(), 'other nanos alone apply the seconds')
    service.push('compared', tokenBucket(1, 101, 86_400.5))
    await applied()
    assert.ok(await fills(), 'with the same nanos, seconds are ignored')
  })

  test('keeps the ratio of the fill when a bucket changes', async () => {
    await open('ratio', tokenBucket(10, 0))
    assert.equal(await countAdmitted('ratio', 5), 5)
    service.push('ratio', tokenBucket(100, 0))
    await applied()
    assert.equal(await countAdmitted('ratio', 100), 50)
    service.push('ratio', tokenBucket(1000, 0))
    await applied()
    assert.equal(await countAdmitted('ratio', 20), 0, 'an empty bucket stays empty')
  })

  const expiries: readonly (readonly [string, number | undefined, boolean])[] = [
    ['no time to live', undefined, true],
    ['0 s', 0, true],
    ['0.9 s', 0.9, true],
    ['60 s', 60, false],
  ]
  for (const [name, ttlSeconds, isExpired] of expiries) {
    test(`an assignment with ${name} ${isExpired ? 'expires at once' : 'lasts'}`, async () => {
      service.assignFor(name, { case: 'blanketRule', value: 1 }, ttlSeconds)
      await envoy.request({ bucket: name })
      await service.reported(name)
      await applied()
      assert.equal(await countAdmitted(name, 2), isExpired ? 2 : 0)
    })
  }

  test('an assignment of 2.9 s lasts 2 s', async () => {
    await open('fraction', { case: 'blanketRule', value: 1 }, 2.9)
    assert.equal(await countAdmitted('fraction', 1), 0)
    await waitFor('the expiry', async () => (await countAdmitted('fraction', 1)) === 1, 2700)
  })

  test('reuse_last_assignment has no effect: an assignment that expires is over', async () => {
    await open('reuse', { case: 'blanketRule', value: 1 }, 1)
    await waitFor('the expiry', async () => (await countAdmitted('reuse', 1)) === 1, 3000)
  })

  test('fallback_rate_limit applies from the expiry on, for its own time', async () => {
    const startMs = performance.now()
    await open('fallback', { case: 'blanketRule', value: 0 }, 1)
    assert.equal(await countAdmitted('fallback', 1), 1)
    await waitFor('the fallback', async () => (await countAdmitted('fallback', 1)) === 0, 3000)
    await waitFor('the end of the fallback', async () => (await countAdmitted('fallback', 1)) === 1, 5000)
    const seconds = (performance.now() - startMs) / 1000
    assert.ok(seconds > 3 && seconds < 5, `1 s and 2 s of fallback took ${seconds} s`)
  })

  test('a fallback that is a token bucket limits, and without a timeout it ends at once', async () => {
    await open('fallback-bucket', { case: 'blanketRule', value: 0 }, 1)
    await open('fallback-without-timeout', { case: 'blanketRule', value: 1 }, 1)
    await waitFor('the expiry', async () => (await countAdmitted('fallback-without-timeout', 1)) === 1, 3000)
    assert.equal(await countAdmitted('fallback-bucket', 6), 3)
    assert.equal(await countAdmitted('fallback-without-timeout', 6), 6)
  })

  test('a fallback that is a token bucket keeps the ratio of the fill, as does the next assignment', async () => {
    await open('fallback-ratio', tokenBucket(10, 0), 1)
    await open('fallback-without-timeout', { case: 'blanketRule', value: 1 }, 1)
    assert.equal(await countAdmitted('fallback-ratio', 5), 5)
    await waitFor('the expiry', async () => (await countAdmitted('fallback-without-timeout', 1)) === 1, 3000)
    assert.equal(await countAdmitted('fallback-ratio', 30), 30)
    service.push('fallback-ratio', tokenBucket(1000, 0))
    await applied()
    assert.equal(await countAdmitted('fallback-ratio', 300), 200)
  })

  test('a bucket without an answer stays without an assignment, and is reported on', async () => {
    assert.equal(await countAdmitted('unanswered', 3), 3)
    const reports = await service.reported('unanswered', 3)
    assert.deepEqual(
      reports.map(({ usage }) => usage.numRequestsAllowed),
      [1n, 2n, 0n],
    )
    assert.equal(await countAdmitted('unanswered', 3), 3)
  })

  for (const [bucket, interval] of reportingIntervals) {
    test(`reports a new bucket at once and then every 5 s, with a reporting_interval of ${interval}`, async t => {
      await countAdmitted(bucket, 1)
      const [first, ...periodic] = await service.reported(bucket, 4)
      assert.ok(first)
      assert.deepEqual(first.usage.timeElapsed, { ...first.usage.timeElapsed, seconds: 0n, nanos: 0 })
      assert.equal(first.usage.numRequestsAllowed, 1n)
      const gaps = periodic.slice(1).map(({ atMs }, index) => atMs - (periodic[index]?.atMs ?? 0))
      const elapsed = periodic.slice(1).map(({ usage }) => Number(usage.timeElapsed?.seconds))
      t.diagnostic(`elapsed ${elapsed} s in gaps of ${gaps.map(Math.round)} ms`)
      for (const gap of gaps) assert.ok(gap > 4500 && gap < 6000, `${gap} ms`)
      for (const { usage } of periodic) assert.equal(usage.timeElapsed?.nanos, 0)
      // 4.999 s is reported as 4 s, which would be an error of a quarter.
      for (const seconds of elapsed) assert.ok(seconds === 4 || seconds === 5, `${seconds}`)
    })
  }

  test('reports all buckets together, idle ones also, until they are abandoned', async () => {
    await open('idle', tokenBucket(5, 0))
    await open('busy', tokenBucket(5, 0))
    const [, idle] = await service.reported('idle', 2)
    assert.ok(idle?.others.includes('busy'), 'in one message')
    assert.equal(idle?.usage.numRequestsAllowed, 0n)
    service.abandon('idle')
    await applied()
    const seen = service.count('idle')
    await service.reported('busy', service.count('busy') + 2)
    assert.equal(service.count('idle'), seen, 'it is not reported any more')
    service.forget('idle')
    await envoy.request({ bucket: 'idle' })
    const again = (await service.reported('idle', seen + 1)).at(-1)
    assert.equal(again?.usage.numRequestsAllowed, 1n, 'the next request begins a new bucket')
    assert.equal(await countAdmitted('idle', 12), 12, 'which has no assignment')
  })

  test('ignores an action for an unknown bucket and one without a bucket, but not those beside it', async () => {
    await open('beside', { case: 'blanketRule', value: 0 })
    service.send([
      action('never-requested', { case: 'blanketRule', value: 1 }),
      { bucketAction: { case: 'abandonAction', value: {} } },
      action('beside', { case: 'blanketRule', value: 1 }),
    ])
    await applied()
    assert.equal(await countAdmitted('beside', 3), 0)
    assert.equal(await countAdmitted('never-requested', 3), 3)
  })

  test('the first matcher that matches decides', async () => {
    service.assign('first', { case: 'blanketRule', value: 1 })
    await envoy.request({ bucket: 'second', matcher: 'first' })
    await service.reported('first')
    assert.equal(service.count('second'), 0)
  })

  test('without a match, or without a header of the bucket, a request is admitted and not reported', async () => {
    assert.equal(await envoy.request({ matcher: 'none' }), 200)
    assert.equal(await envoy.request({ matcher: 'with-user' }), 200)
    await countAdmitted('without-match', 1)
    await service.reported('without-match', 2)
    assert.equal(service.count('with-user'), 0)
    assert.equal(await envoy.request({ matcher: 'with-user', user: '' }), 200)
    const [report] = await service.reported('with-user')
    assert.deepEqual(
      report?.usage.bucketId?.bucket,
      { bucket: 'with-user' },
      'an empty header only lacks its entry',
    )
  })

  test('names itself by x-forwarded-for; the values of initial_metadata are constants', async () => {
    await countAdmitted('metadata', 1)
    await service.reported('metadata')
    const [metadata] = service.streams
    assert.match(`${metadata?.get('x-forwarded-for')}`, /^[\d.]+$|:/)
    assert.deepEqual(metadata?.get('tollway-member'), ['%ENVIRONMENT(HOME)%'])
    assert.equal(service.streams.length, 1, 'all threads have one stream together')
  })

  test('a token bucket as the behaviour before an assignment ends Envoy', async t => {
    const bucket = { max_tokens: 1, tokens_per_fill: 1, fill_interval: '1s' }
    const matchers = [{ when: ['bucket'], unassigned: { token_bucket: bucket } }] as const
    const own = await ScriptedService.start(t)
    const fragile = await startQuotaEnvoy(t, filterOf(matchers), own.port)
    assert.equal(await fragile.request({ bucket: 'fragile' }), 200)
    await waitFor('Envoy to end', () =>
      fragile.request({ bucket: 'fragile' }).then(
        code => code !== 200 && `${code}`,
        () => true,
      ),
    )
    await assert.rejects(fetch(`http://127.0.0.1:${fragile.adminPort}/ready`))
  })

  const printed: readonly (readonly [string, Record<string, string>, Record<string, string>])[] = [
    ['/', { user: 'alice' }, { user: 'alice' }],
    ['/search?q=1', { user: 'bob', plan: 'free' }, { path: '/search', plan: 'free' }],
    ['/search/2', { user: 'bob' }, { path: '/search' }],
    ['/reports/7', { user: 'bob' }, { path: '/reports/7' }],
    ['/', { plan: 'gold', user: 'bob' }, { plan: 'silver' }],
    ['/', { agent: 'bot-12' }, { agent: 'bot-12' }],
  ]

  test('builds the bucket ids of the rules with the printed filter', async t => {
    for (const [network, cases] of [
      ['10.0.0.0/8', printed],
      ['127.0.0.0/8', [['/', { user: 'bob' }, { remote_address: '127.0.0.1' }]] as typeof printed],
    ] as const) {
      const own = await ScriptedService.start(t)
      const other = await startQuotaEnvoy(t, printFilter(network), own.port)
      for (const [path, headers, id] of cases) {
        const before = own.ids.length
        assert.equal(await other.request(headers, path), 200)
        await waitFor(`the report of ${JSON.stringify(id)}`, () => own.ids.length > before)
        assert.deepEqual(own.ids.at(-1), id, `${path} ${JSON.stringify(headers)}`)
      }
    }
  })

  test('after the end of its stream, it opens a new one with the next reports, and keeps assignments', async t => {
    const own = await ScriptedService.start(t)
    const other = await startQuotaEnvoy(t, filterOf(bucketMatchers), own.port)
    own.assign('kept', tokenBucket(5, 0))
    await other.request({ bucket: 'kept' })
    await own.reported('kept')
    await applyAll(own, other)
    own.closeStream()
    const codes = await Promise.all(Array.from({ length: 8 }, () => other.request({ bucket: 'kept' })))
    assert.equal(codes.filter(code => code === 200).length, 5)
    // The first report of a new bucket is lost with its request, since there is no stream.
    for (let made = 0; made < 3; made++) await other.request({ bucket: 'new' })
    const [, kept] = await own.reported('kept', 2)
    const [begun] = await own.reported('new')
    assert.equal(own.streams.length, 2)
    assert.deepEqual([kept?.usage.numRequestsAllowed, kept?.usage.numRequestsDenied], [5n, 3n])
    assert.equal(begun?.usage.numRequestsAllowed, 2n)
  })

  test('without the service it counts on, drops its reports, and lets assignments expire', async t => {
    const [port = 0] = await freePorts(1)
    const own = await ScriptedService.start(t, port)
    const other = await startQuotaEnvoy(t, filterOf(bucketMatchers), port)
    own.assign('alone', { case: 'blanketRule', value: 1 }, 6)
    await other.request({ bucket: 'alone' })
    await own.reported('alone')
    await own.stop()
    const admits = async () => (await other.request({ bucket: 'alone' })) === 200
    assert.ok(!(await admits()))
    await waitFor('the expiry', admits, 8000)
    await pause(6000)
    const back = await ScriptedService.start(t, port)
    await other.request({ bucket: 'alone' })
    const [report] = await back.reported('alone')
    t.diagnostic(`${report?.usage.numRequestsAllowed} allowed, ${report?.usage.timeElapsed?.seconds} s`)
    assert.ok(Number(report?.usage.timeElapsed?.seconds) <= 5, 'the time starts anew with each lost report')
  })
})

let marks = 0

/** Envoy has no statistic of its assignments, but applies them in order: waits for that of a bucket made for this. */
async function applyAll(service: ScriptedService, envoy: QuotaEnvoy): Promise<void> {
  const bucket = `mark-${marks++}`
  service.assign(bucket, { case: 'blanketRule', value: 1 })
  await waitFor('the assignments to be applied', async () => (await envoy.request({ bucket })) !== 200)
}

type Strategy = NonNullable<MessageInitShape<typeof RateLimitStrategySchema>['strategy']>
type Action = MessageInitShape<typeof RateLimitQuotaResponse_BucketActionSchema>

function tokenBucket(maxTokens: number, tokens: number, seconds = 1): Strategy {
  return { case: 'tokenBucket', value: { maxTokens, tokensPerFill: tokens, fillInterval: duration(seconds) } }
}

function duration(seconds: number) {
  return { seconds: BigInt(Math.floor(seconds)), nanos: Math.round((seconds % 1) * 1e9) }
}

/** @param ttlSeconds left out of the message if undefined */
function actionFor(bucket: string, strategy: Strategy, ttlSeconds: number | undefined): Action {
  const ttl = ttlSeconds === undefined ? {} : { assignmentTimeToLive: duration(ttlSeconds) }
  const value = { ...ttl, rateLimitStrategy: { strategy } }
  return { bucketId: { bucket: { bucket } }, bucketAction: { case: 'quotaAssignmentAction', value } }
}

function action(bucket: string, strategy: Strategy, ttlSeconds = 120): Action {
  return actionFor(bucket, strategy, ttlSeconds)
}

interface Report {
  readonly atMs: number
  readonly usage: RateLimitQuotaUsageReports_BucketQuotaUsage
  /** The other buckets of the message. */
  readonly others: readonly string[]
}

/** A quota service that gives each bucket what the test says, when it is reported for the first time. */
class ScriptedService {
  /** Of the buckets in the order of their first reports. */
  readonly ids: Readonly<Record<string, string>>[] = []
  readonly streams: Call['metadata'][] = []
  readonly #answers = new Map<string, Action>()
  readonly #reports = new Map<string, Report[]>()
  #queue = new AsyncQueue<readonly Action[]>()
  readonly #server = createGrpcServer({
    methods: [this.#method()],
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  port = 0

  static async start(t: Cleanup, port = 0): Promise<ScriptedService> {
    const service = new ScriptedService()
    const bound = await service.#server.listen({ host: '127.0.0.1', port })
    if ('port' in bound) service.port = bound.port
    t.after(() => service.stop())
    return service
  }

  async stop(): Promise<void> {
    this.#queue.end()
    await this.#server.drain(0)
  }

  assign(bucket: string, strategy: Strategy, ttlSeconds = 120): void {
    this.assignFor(bucket, strategy, ttlSeconds)
  }

  assignFor(bucket: string, strategy: Strategy, ttlSeconds: number | undefined): void {
    this.#answers.set(bucket, actionFor(bucket, strategy, ttlSeconds))
  }

  forget(bucket: string): void {
    this.#answers.delete(bucket)
  }

  push(bucket: string, strategy: Strategy): void {
    this.send([action(bucket, strategy)])
  }

  abandon(bucket: string): void {
    this.send([{ bucketId: { bucket: { bucket } }, bucketAction: { case: 'abandonAction', value: {} } }])
  }

  send(actions: readonly Action[]): void {
    this.#queue.put(actions)
  }

  closeStream(): void {
    this.#queue.end()
  }

  count(bucket: string): number {
    return this.#reports.get(bucket)?.length ?? 0
  }

  /** Resolves with the reports of a bucket when there are so many. */
  async reported(bucket: string, count = 1): Promise<readonly Report[]> {
    await waitFor(`${count} reports of ${bucket}`, () => this.count(bucket) >= count, count * 7000)
    return this.#reports.get(bucket) ?? []
  }

  #method(): Method<RateLimitQuotaUsageReports, readonly Action[]> {
    return {
      path: '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas',
      kind: 'bidi',
      decode: bytes => fromBinary(RateLimitQuotaUsageReportsSchema, bytes),
      encode: bucketAction =>
        toBinary(
          RateLimitQuotaResponseSchema,
          create(RateLimitQuotaResponseSchema, { bucketAction: [...bucketAction] }),
        ),
      handle: (requests, { metadata }) => {
        this.streams.push(metadata)
        const queue = new AsyncQueue<readonly Action[]>()
        this.#queue = queue
        void this.#read(requests)
          .finally(() => queue.end())
          .catch(() => {})
        return queue.items
      },
    }
  }

  async #read(requests: AsyncIterable<RateLimitQuotaUsageReports>): Promise<void> {
    for await (const { domain, bucketQuotaUsages } of requests) {
      assert.equal(domain, 'shop', 'each message names the domain')
      const atMs = performance.now()
      const names = bucketQuotaUsages.map(({ bucketId }) => bucketId?.bucket['bucket'] ?? '')
      for (const [index, usage] of bucketQuotaUsages.entries()) {
        const name = names[index] ?? ''
        const id = usage.bucketId?.bucket ?? {}
        if (!this.ids.some(known => isDeepStrictEqual(known, id))) this.ids.push(id)
        const earlier = this.#reports.get(name) ?? []
        const answer = this.#answers.get(name)
        if (answer !== undefined && earlier.length === 0) this.send([answer])
        this.#reports.set(name, [...earlier, { atMs, usage, others: names }])
      }
    }
  }
}

/** Returns the filter of the golden file, with another network. */
function printFilter(network: string): object {
  const path = join(root, 'operator/kinds/rate-limit-config/testdata/envoyquota/rules.in.yaml')
  const text = readFileSync(path, 'utf8').replace('10.0.0.0/8', network)
  const made = translateRateLimitConfig('shop/shop', load(text, { schema: CORE_SCHEMA }))
  assert.ok('value' in made)
  const [filter] = toEnvoyQuota([made.value], new Map([['path', ':path']])).filters
  return (filter as { readonly typed_config: object }).typed_config
}

function header(name: string): object {
  return {
    name,
    typed_config: {
      '@type': 'type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput',
      header_name: name,
    },
  }
}

interface Matcher {
  /** The header, and its value; a bucket of any name if left out. */
  readonly when: readonly [string, string?]
  readonly id?: object
  readonly unassigned?: object
  readonly expired?: object
  /** `reporting_interval`; 1 s if left out. */
  readonly interval?: string
}

const bucketMatchers: readonly Matcher[] = [
  { when: ['matcher', 'first'], id: { bucket: { string_value: 'first' } } },
  {
    when: ['matcher', 'with-user'],
    id: { bucket: { string_value: 'with-user' }, user: { custom_value: header('user') } },
  },
  {
    when: ['bucket', 'reuse'],
    expired: { reuse_last_assignment: {}, expired_assignment_behavior_timeout: '60s' },
  },
  {
    when: ['bucket', 'fallback'],
    expired: { fallback_rate_limit: { blanket_rule: 'DENY_ALL' }, expired_assignment_behavior_timeout: '2s' },
  },
  {
    when: ['bucket', 'fallback-bucket'],
    expired: {
      fallback_rate_limit: { token_bucket: { max_tokens: 3, tokens_per_fill: 1, fill_interval: '3600s' } },
      expired_assignment_behavior_timeout: '60s',
    },
  },
  {
    when: ['bucket', 'fallback-ratio'],
    expired: {
      fallback_rate_limit: { token_bucket: { max_tokens: 100, tokens_per_fill: 1, fill_interval: '3600s' } },
      expired_assignment_behavior_timeout: '60s',
    },
  },
  {
    when: ['bucket', 'fallback-without-timeout'],
    expired: { fallback_rate_limit: { blanket_rule: 'DENY_ALL' } },
  },
  ...reportingIntervals.map(([bucket, interval]): Matcher => ({ when: ['bucket', bucket], interval })),
  { when: ['bucket'] },
]

function filterOf(matchers: readonly Matcher[]): object {
  const type = 'type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3'
  return {
    '@type': `${type}.RateLimitQuotaFilterConfig`,
    domain: 'shop',
    rlqs_server: {
      envoy_grpc: { cluster_name: quotaCluster },
      initial_metadata: [{ key: 'tollway-member', value: '%ENVIRONMENT(HOME)%' }],
    },
    bucket_matchers: {
      matcher_list: {
        matchers: matchers.map(
          ({
            when: [name, value],
            id,
            unassigned = { blanket_rule: 'ALLOW_ALL' },
            expired,
            interval = '1s',
          }) => ({
            predicate: {
              single_predicate: {
                input: header(name),
                value_match:
                  value === undefined ? { safe_regex: { google_re2: {}, regex: '.*' } } : { exact: value },
              },
            },
            on_match: {
              action: {
                name: 'bucket',
                typed_config: {
                  '@type': `${type}.RateLimitQuotaBucketSettings`,
                  bucket_id_builder: { bucket_id_builder: id ?? { bucket: { custom_value: header(name) } } },
                  reporting_interval: interval,
                  no_assignment_behavior: { fallback_rate_limit: unassigned },
                  ...(expired && { expired_assignment_behavior: expired }),
                },
              },
            },
          }),
        ),
      },
    },
  }
}
