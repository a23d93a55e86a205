import { setTimeout as pause } from 'node:timers/promises'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import { RateLimitQuotaUsageReportsSchema } from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import { RateLimitDelivery, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { waitFor } from '../support/wait-for.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { domain, generous, userRule } from './configurations.ts'
import { formatNumber } from './format-number.ts'
import type { Goal } from './goals.ts'
import { percentile } from './percentiles.ts'
import { cpuMicros, rssMiB } from './process-usage.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** One process of the quota service, with proxies that have the same buckets and report as Envoy does. */
export const quotaCase: BenchCase = {
  name: 'quota',
  title: 'quota, 100 proxies × 10,000 buckets, a report every 5 s, shares in Redis',
  needs: ['redis-server'],
  long: true,
  run,
}

const proxies = 100
const buckets = 10_000
const reportEveryMs = 5_000
/** Half of the buckets want less than their limit. */
const requestsPerUnit = 100
const usedByReport = [2, 12] as const
/** Proxies begin one after the other. */
const beginEveryMs = 250
/** A proxy begins its buckets in parts, as its requests do. */
const bucketsAtOnce = 1_000
/** Enough for all buckets of all proxies. */
const settings = { QUOTA_MEMORY_BYTES: `${4 * 1024 ** 3}` }
/** Messages that differ in their numbers, since load always varies a little. */
const variants = 8
/**
 * The last bucket of a report has no rule and no requests: the answer to the report abandons it, and nothing else does.
 * Shares of other buckets are also pushed between reports.
 */
const markerKey = 'report'

const beginDeadlineMs = 120_000

const path = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
const codec: Codec<Uint8Array, Uint8Array> = { encode: bytes => bytes, decode: bytes => bytes }

async function run({ rounds }: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const feed = await startLimitFeed()
  const rateLimit = { unit: RateLimitUnit.SECOND, requestsPerUnit, delivery: RateLimitDelivery.QUOTA }
  const descriptors = [{ key: 'user', rateLimit }]
  feed.send(encodeResponse('1', [encodeDomain({ name: domain, domain, descriptors })]))
  const server = await startOurs({
    rules: userRule(generous),
    redisPort: redis.port,
    settings: { ...feed.settings, ...settings },
  })
  const load = new QuotaLoad(server.port)
  try {
    await skipLearning(redis)
    await load.begin()
    await waitFor('all proxies to have an answer', () => load.answered >= 2 * proxies, beginDeadlineMs)
    const measured: Awaited<ReturnType<typeof measureRound>>[] = []
    for (let round = 0; round < rounds; round += 1) measured.push(await measureRound(server, redis, load))
    const row = (
      what: string,
      unit: string,
      figure: keyof (typeof measured)[number],
      goal?: Goal,
    ): GoalRow => {
      return { what, unit, figures: measured.map(each => each[figure]), goal, compared: '', steady: true }
    }
    return {
      rows: [
        row('CPU of the process for all reports, in cores', '', 'cores', { atMost: 1 }),
        row('CPU of a bucket in a report', 'µs', 'micros'),
        row('reports that were answered within 5 s', '', 'answered'),
        row('CPU of Redis, in cores', '', 'redisCores'),
        row('RSS', 'MiB', 'rss'),
        row('answer of a report, p50', 'ms', 'p50Ms'),
        row('answer of a report, p99', 'ms', 'p99Ms'),
      ],
      measurements: {},
      notes: [
        `${proxies} streams, ${formatNumber((proxies * buckets * 1000) / reportEveryMs)} buckets a second`,
      ],
    }
  } finally {
    load.end()
    await server.end()
    await feed.stop()
    await redis.stop()
  }
}

/** A Redis that is new would grant nothing for 20 s. */
async function skipLearning(redis: RedisServer): Promise<void> {
  for (let shard = 0; shard < 16; shard += 1) {
    await redis.command('HSET', `{shares-${shard}}`, 'learn_until', '1')
  }
}

async function measureRound(server: MeasuredServer, redis: RedisServer, load: QuotaLoad) {
  const [startMs, before, redisBefore] = [performance.now(), cpuMicros(server.pid), cpuMicros(redis.pid)]
  const { answered } = load
  load.latenciesMs.length = 0
  await pause(2 * reportEveryMs)
  const micros = cpuMicros(server.pid) - before
  const wallMicros = (performance.now() - startMs) * 1000
  return {
    // A process that does not keep up would have the whole core.
    cores: (micros * proxies) / (load.answered - answered) / (reportEveryMs * 1000),
    micros: micros / ((load.answered - answered) * buckets),
    answered: (load.answered - answered) / (2 * proxies),
    redisCores: (cpuMicros(redis.pid) - redisBefore) / wallMicros,
    rss: rssMiB(server.pid),
    p50Ms: percentile(load.latenciesMs, 0.5),
    p99Ms: percentile(load.latenciesMs, 0.99),
  }
}

class QuotaLoad {
  readonly latenciesMs: number[] = []
  answered = 0
  readonly #port: number
  readonly #timers: NodeJS.Timeout[] = []
  readonly #messages = Array.from({ length: variants }, () => encodeReport(0, buckets, 5))
  #ends: (() => void)[] = []

  constructor(port: number) {
    this.#port = port
  }

  /** Resolves when all proxies have begun all buckets, and report them at even intervals. */
  async begin(): Promise<void> {
    const first = Array.from({ length: buckets / bucketsAtOnce }, (_, part) =>
      encodeReport(part * bucketsAtOnce, bucketsAtOnce, 0),
    )
    for (let nth = 0; nth < proxies; nth += 1) {
      const report = await this.#open(nth, first)
      // A multiple of the interval and a part: the reports of all proxies are at even distances.
      await pause(beginEveryMs + reportEveryMs / proxies)
      report()
      this.#timers.push(setInterval(report, reportEveryMs))
    }
  }

  end(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    for (const end of this.#ends) end()
  }

  async #open(nth: number, first: readonly Uint8Array[]): Promise<() => void> {
    const client = createGrpcClient(`127.0.0.1:${this.#port}`)
    const call = client.bidi(path, codec, { metadata: new Map([['tollway-member', [`proxy ${nth}`]]]) })
    this.#ends.push(() => {
      call.end()
      client.close()
    })
    /** Of each report. */
    const sentMs: number[] = []
    let answered = 0
    const read = async () => {
      for await (const answer of call.messages) {
        const last = findMarker(answer)
        // A report that waits when the next one arrives is answered with that.
        for (; last !== undefined && answered <= last; answered += 1) {
          this.latenciesMs.push(performance.now() - (sentMs[answered] ?? 0))
          this.answered += 1
        }
      }
    }
    void read().catch(() => {})
    for (const message of first) await call.write(message)
    return () => {
      const variant = this.#messages[(nth + sentMs.length) % variants] as Uint8Array
      const marker = encodeReports([{ bucketId: { bucket: { [markerKey]: `${sentMs.length}` } } }])
      sentMs.push(performance.now())
      // Concatenated messages are one, with the repeated fields of both.
      void call.write(Buffer.concat([variant, marker]))
    }
  }
}

/** Returns the number of the report to which this is the last part of the answer. */
function findMarker({ buffer, byteOffset, length }: Uint8Array): number | undefined {
  // The bytes of an id are written in the order of its fields: key, value and its length.
  const bytes = Buffer.from(buffer, byteOffset, length)
  const at = bytes.lastIndexOf(markerKey)
  if (at < 0) return undefined
  const valueAt = at + markerKey.length + 2
  return Number(bytes.toString('latin1', valueAt, valueAt + (bytes[valueAt - 1] ?? 0)))
}

function encodeReport(from: number, count: number, seconds: number): Uint8Array {
  const bucketQuotaUsages = Array.from({ length: count }, (_, index) => {
    const most = usedByReport[index % usedByReport.length] ?? 0
    const requests = seconds === 0 ? 1 : Math.round(most * (0.5 + Math.random()))
    return {
      bucketId: { bucket: { user: `user-${from + index}` } },
      timeElapsed: { seconds: BigInt(seconds) },
      numRequestsAllowed: BigInt(requests),
    }
  })
  return encodeReports(bucketQuotaUsages)
}

const schema = RateLimitQuotaUsageReportsSchema

const encodeReports = (
  bucketQuotaUsages: NonNullable<MessageInitShape<typeof schema>['bucketQuotaUsages']>,
) => toBinary(schema, create(schema, { domain, bucketQuotaUsages }))
