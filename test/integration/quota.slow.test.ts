import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type RateLimitQuotaResponse,
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitDelivery, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { load } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { Admissions, startLoad } from '../e2e/load.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { startProgram } from '../support/program.ts'
import { startQuotaEnvoy } from '../support/quota-envoy.ts'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { endLearning, startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { residentMiB } from '../support/resident-memory.ts'
import { runCaptured } from '../support/run-captured.ts'
import { childrenOf } from '../support/running-processes.ts'
import { manifest, root, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const limitPerSecond = 100
/** A service that starts without data learns for 20 s, and grants something at the next renewal. */
const learnedDeadlineMs = 40_000

/** Returns the filter that `tollway translate -o envoy-quota` prints for the manifests. */
async function printFilter({ folder }: Tollway, ...headers: readonly string[]): Promise<object> {
  const args = [
    'translate',
    '-f',
    folder,
    '-o',
    'envoy-quota',
    ...headers.flatMap(header => ['--header', header]),
  ]
  const { code, out, err } = await runCaptured(output => runTollway(args, output))
  assert.equal(code, 0, err)
  const [filter] = load(out) as { readonly typed_config: object }[]
  assert.ok(filter)
  return filter.typed_config
}

async function startService(t: TestContext): Promise<Tollway> {
  const limits = manifest('c', 'shop', { user: `${limitPerSecond}/second` })
  const shared = limits.replace('unit: second', 'unit: second, delivery: Quota')
  assert.match(shared, /Quota/)
  const tollway = await startTollway(t, { 'c.yaml': shared })
  await tollway.ready()
  return tollway
}

// Most of the time they wait for reports.
suite('proxies that share a limit', { concurrency: true }, () => {
  const reportsPath = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
  type Reports = MessageInitShape<typeof RateLimitQuotaUsageReportsSchema>
  const codec: Codec<RateLimitQuotaResponse, Reports> = {
    encode: reports =>
      toBinary(RateLimitQuotaUsageReportsSchema, create(RateLimitQuotaUsageReportsSchema, reports)),
    decode: bytes => fromBinary(RateLimitQuotaResponseSchema, bytes),
  }

  test('100,000 new buckets of five streams, of known and unknown rules, take bounded memory and no call', async t => {
    const tollway = await startService(t)
    const [pid, ...others] = childrenOf(tollway.program.pid)
    assert.ok(pid !== undefined && others.length === 0)
    const client = createGrpcClient(`127.0.0.1:${tollway.grpcPort}`)
    t.after(async () => client.close())
    const before = residentMiB(pid)
    let answered = 0
    const calls = await Promise.all(
      Array.from({ length: 5 }, async (_, stream) => {
        const metadata = new Map([['tollway-member', [`proxy ${stream}`]]])
        const call = client.bidi(reportsPath, codec, { metadata })
        void (async () => {
          for await (const _answer of call.messages) answered += 1
        })().catch(() => {})
        for (let second = 0; second < 10; second++) {
          const startMs = performance.now()
          const usages = Array.from({ length: 2000 }, (_, index) => ({
            bucketId: { bucket: { [index % 2 === 0 ? 'user' : 'unknown']: `${stream}-${second}-${index}` } },
            numRequestsAllowed: 1n,
          }))
          await call.write({ domain: 'shop', bucketQuotaUsages: usages })
          await pause(Math.max(0, startMs + 1000 - performance.now()))
        }
        return call
      }),
    )
    const reportAgain = async () => {
      for (const [stream, call] of calls.entries()) {
        const bucketId = { bucket: { user: `${stream}-0-0` } }
        await call.write({ domain: 'shop', bucketQuotaUsages: [{ bucketId, numRequestsAllowed: 1n }] })
      }
      return answered >= 25
    }
    await waitFor('answers', reportAgain, learnedDeadlineMs)
    assert.equal(await tollway.ask('shop', 'user', 'alice'), 200)
    const grown = residentMiB(pid) - before
    t.diagnostic(`${grown.toFixed(0)} MiB more for 100,000 buckets`)
    assert.ok(grown < 300, `${grown} MiB`)
    for (const call of calls) call.end()
  })

  /** Reports as Envoy does, of requests that it does not have. */
  class ReportingProxy {
    /** The requests a second. */
    demand: number
    port: number
    readonly #name: string
    readonly #onAssignment: () => void
    #stream: { readonly report: (reports: Reports) => Promise<void>; readonly close: () => void } | undefined
    #assigned = { perSecond: 0, endsMs: 0 }
    #begunMs = 0

    constructor(name: string, port: number, demand: number, onAssignment: () => void) {
      this.#name = name
      this.port = port
      this.demand = demand
      this.#onAssignment = onAssignment
    }

    /** The requests a second that it may admit; undefined without an assignment. */
    get allowed(): number | undefined {
      return performance.now() < this.#assigned.endsMs ? this.#assigned.perSecond : undefined
    }

    async report(): Promise<void> {
      const seconds = this.#begunMs === 0 ? 0 : 5
      this.#begunMs ||= performance.now()
      this.#stream ??= this.#open()
      const usage = {
        bucketId: { bucket: { user: 'alice' } },
        timeElapsed: { seconds: BigInt(seconds) },
        numRequestsAllowed: BigInt(Math.max(1, this.demand * seconds)),
      }
      // A stream that has ended is opened again for the next report, and this one is lost.
      await this.#stream.report({ domain: 'shop', bucketQuotaUsages: [usage] }).catch(() => {})
    }

    close(): void {
      this.#stream?.close()
    }

    #open() {
      const client = createGrpcClient(`127.0.0.1:${this.port}`)
      const metadata = new Map([['tollway-member', [this.#name]]])
      const call = client.bidi(reportsPath, codec, { metadata })
      const read = async () => {
        for await (const { bucketAction } of call.messages) for (const each of bucketAction) this.#take(each)
      }
      const end = () => {
        this.#stream = undefined
        client.close()
      }
      read().then(end, end)
      return { report: (reports: Reports) => call.write(reports), close: () => client.close() }
    }

    #take({ bucketAction: action }: RateLimitQuotaResponse['bucketAction'][number]): void {
      assert.ok(action.case === 'quotaAssignmentAction')
      const { rateLimitStrategy, assignmentTimeToLive } = action.value
      const strategy = rateLimitStrategy?.strategy
      assert.ok(strategy?.case === 'tokenBucket')
      const { tokensPerFill = 0, fillInterval } = strategy.value
      const perSecond = tokensPerFill / Number(fillInterval?.seconds)
      const endsMs = performance.now() + Number(assignmentTimeToLive?.seconds) * 1000
      this.#assigned = { perSecond, endsMs }
      this.#onAssignment()
    }
  }

  test('five Envoys and two other proxies admit the limit in a minute in which the load moves', async t => {
    if (!requireProgram(t, 'envoy')) return
    const tollway = await startService(t)
    const filter = await printFilter(tollway, 'user=x-user')
    const envoys = await Promise.all(
      Array.from({ length: 5 }, () => startQuotaEnvoy(t, filter, tollway.grpcPort)),
    )
    // Four fifths of the load are those of one Envoy.
    const [hotDemand, demand] = [200, 8]
    const hotShare = limitPerSecond - 6 * demand
    // Two reports of each, and the third of the one that has less now: docs/concepts/quota.md.
    const convergesMs = 15_000
    const loads = envoys.map(({ ingressPort }, nth) =>
      startLoad(`http://127.0.0.1:${ingressPort}/`, {
        user: 'alice',
        callers: 4,
        callsPerSecond: nth === 0 ? hotDemand : demand,
      }),
    )
    const admissions = new Admissions(loads, limitPerSecond)
    t.after(async () => {
      admissions.stop()
      await Promise.all(loads.map(({ stop }) => stop()))
    })
    let usedByOthers = 0
    let lastMs = performance.now()
    const integrate = () => {
      const nowMs = performance.now()
      for (const { allowed = 0 } of others)
        usedByOthers += (Math.min(demand, allowed) * (nowMs - lastMs)) / 1000
      lastMs = nowMs
    }
    const others = ['one', 'other'].map(name => new ReportingProxy(name, tollway.grpcPort, demand, integrate))
    const reporting = others.map(proxy => {
      void proxy.report()
      return setInterval(() => void proxy.report(), 5000)
    })
    const integrating = setInterval(integrate, 50)
    t.after(() => {
      for (const each of [...reporting, integrating]) clearInterval(each)
      for (const proxy of others) proxy.close()
    })
    /** What all have been admitted, and when. */
    const read = () => {
      integrate()
      const ofEnvoys = loads.reduce((sum, { codes }) => sum + (codes.get(200) ?? 0), 0)
      return { atMs: performance.now(), admitted: ofEnvoys + usedByOthers }
    }
    type Reading = ReturnType<typeof read>
    const between = (from: Reading, to: Reading) =>
      ((to.admitted - from.admitted) * 1000) / (to.atMs - from.atMs)

    const ofEnvoys = limitPerSecond - others.length * demand
    const isSteady = () =>
      others.every(({ allowed = 0 }) => allowed >= 0.95 * demand) &&
      Math.abs(admissions.rate(5_000) / ofEnvoys - 1) < 0.05
    await waitFor(
      () => `the limit: ${admissions.rate(5_000)}, ${others.map(({ allowed }) => allowed)}`,
      isSteady,
      learnedDeadlineMs + 15_000,
    )
    const began = read()
    await pause(20_000)
    const moved = read()
    loads[0]?.setRate(demand)
    loads[3]?.setRate(hotDemand)
    await pause(convergesMs)
    const followed = read()
    await pause(40_000 - convergesMs)
    const ended = read()

    const followedMs = admissions.steadyAfter(moved.atMs, ofEnvoys * 0.9)
    const stalledMs = admissions.stalledMs(began.atMs)
    const rates = [between(began, moved), between(followed, ended)]
    const whole = between(began, ended)
    t.diagnostic(
      `${whole.toFixed(1)} admitted a second, ${rates.map(rate => rate.toFixed(1))} before and after the load moved, ` +
        `which all followed in ${(followedMs / 1000).toFixed(1)} s; by Envoys in each 5 s ${admissions.history(began.atMs)}; ` +
        `stood still for ${stalledMs.toFixed(0)} ms`,
    )
    for (const rate of [...rates, whole]) assert.ok(rate <= limitPerSecond * 1.05, `${rate}`)
    for (const rate of rates) assert.ok(rate >= limitPerSecond * 0.95, `${rate} of ${limitPerSecond}`)
    // What the share that moves has until the second report is unused.
    const unused = ((hotShare - demand) * convergesMs) / 60_000
    assert.ok(whole >= limitPerSecond * 0.95 - unused, `${whole} of ${limitPerSecond} in the whole minute`)
    assert.ok(followedMs <= convergesMs + stalledMs, `followed after ${followedMs} ms`)
  })

  /** Starts two processes with one limit on one Redis. */
  async function startPair(t: TestContext): Promise<readonly [RateLimitProcess, RateLimitProcess]> {
    const redis = await startRedis()
    t.after(() => redis.stop())
    await endLearning(redis)
    const feed = await startLimitFeed()
    t.after(() => feed.stop())
    const { SECOND: unit } = RateLimitUnit
    const rateLimit = { unit, requestsPerUnit: limitPerSecond, delivery: RateLimitDelivery.QUOTA }
    const descriptors = [{ key: 'user', rateLimit }]
    feed.send(encodeResponse('1', [encodeDomain({ name: 'shop', domain: 'shop', descriptors })]))
    const env = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${redis.port}` }
    const start = () => startRateLimit(t, { ...env, DRAIN_DELAY: '1s', ...feed.settings })
    const [first, second] = await Promise.all([start(), start()])
    await Promise.all([first.serves(), second.serves()])
    return [first, second]
  }

  test('the proxies of two processes on one Redis share a limit, also when one of both stops', async t => {
    if (!requireProgram(t, 'redis-server')) return
    const [first, second] = await startPair(t)
    let highest = 0
    const sum = () => proxies.reduce((total, { allowed = 0 }) => total + allowed, 0)
    const check = () => {
      highest = Math.max(highest, sum())
    }
    const proxies = Array.from({ length: 6 }, (_, nth) => {
      const { grpcPort } = nth % 2 === 0 ? first : second
      return new ReportingProxy(`proxy ${nth}`, grpcPort, nth === 0 ? 200 : 8, check)
    })
    const reporting = proxies.map((proxy, nth) => {
      void proxy.report()
      return setInterval(() => void proxy.report(), 5000 + nth * 7)
    })
    t.after(() => {
      for (const each of reporting) clearInterval(each)
      for (const proxy of proxies) proxy.close()
    })
    const rates = () => proxies.map(({ allowed }) => allowed?.toFixed(1) ?? 'none').join(' ')
    /** Waits until the limit is assigned, and the proxy with the most demand has what the others leave. */
    const converged = async (hot: number, within: number) => {
      const startMs = performance.now()
      const isDone = () => sum() >= limitPerSecond * 0.95 && (proxies[hot]?.allowed ?? 0) >= 50
      await waitFor(() => `the shares to follow: ${rates()}`, isDone, within)
      t.diagnostic(`${rates()} after ${((performance.now() - startMs) / 1000).toFixed(1)} s`)
    }
    await converged(0, learnedDeadlineMs)
    for (const [nth, proxy] of proxies.entries()) proxy.demand = nth === 3 ? 200 : 8
    await converged(3, 20_000)

    for (const proxy of proxies) proxy.port = first.grpcPort
    let leastOfHot = Number.POSITIVE_INFINITY
    let longestWithoutMs = 0
    let lastWithMs = performance.now()
    const watching = setInterval(() => {
      const fewest = Math.min(...proxies.map(({ allowed = 0 }) => allowed))
      leastOfHot = Math.min(leastOfHot, proxies[3]?.allowed ?? 0)
      if (fewest > 0) lastWithMs = performance.now()
      longestWithoutMs = Math.max(longestWithoutMs, performance.now() - lastWithMs)
      check()
    }, 50)
    t.after(() => clearInterval(watching))
    await second.program.end('SIGTERM')
    // Longer than the assignments last that the process has given before it stopped.
    await pause(25_000)
    await converged(3, 20_000)
    t.diagnostic(
      `at most ${highest.toFixed(1)} at once; at least ${leastOfHot.toFixed(1)} for the one with most`,
    )
    assert.ok(highest <= limitPerSecond, `${highest} of ${limitPerSecond}`)
    assert.ok(leastOfHot >= 50, `the proxy with most demand had ${leastOfHot}`)
    assert.ok(longestWithoutMs < 1000, `a proxy had nothing for ${longestWithoutMs.toFixed(0)} ms`)
  })

  /** Calls at a rate, and counts what is admitted. */
  class Callers {
    callsPerSecond: number
    admitted = 0
    errors = 0
    readonly #call: () => Promise<boolean>
    readonly #timer: NodeJS.Timeout
    #due = 0
    #lastMs = performance.now()

    constructor(t: TestContext, { grpcPort }: RateLimitProcess, callsPerSecond: number) {
      this.callsPerSecond = callsPerSecond
      const { shouldRateLimit } = callRateLimit(t, grpcPort)
      const request = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
      this.#call = async () => (await shouldRateLimit(request)).overallCode === Code.OK
      this.#timer = setInterval(() => this.#callDue(), 10)
      t.after(() => this.stop())
    }

    stop(): void {
      clearInterval(this.#timer)
    }

    #callDue(): void {
      const nowMs = performance.now()
      this.#due += ((nowMs - this.#lastMs) * this.callsPerSecond) / 1000
      this.#lastMs = nowMs
      for (; this.#due >= 1; this.#due -= 1) {
        this.#call().then(
          isAdmitted => {
            this.admitted += Number(isAdmitted)
          },
          () => {
            this.errors += 1
          },
        )
      }
    }
  }

  test('calls to two processes and a proxy share a limit, and follow demand and the end of a process', async t => {
    if (!requireProgram(t, 'redis-server')) return
    const [first, second] = await startPair(t)
    let usedByProxy = 0
    let lastMs = performance.now()
    const integrate = () => {
      const nowMs = performance.now()
      usedByProxy += ((nowMs - lastMs) * (proxy.allowed ?? 0)) / 1000
      lastMs = nowMs
    }
    const proxy = new ReportingProxy('proxy', first.grpcPort, 200, integrate)
    void proxy.report()
    const reporting = setInterval(() => void proxy.report(), 5000)
    const integrating = setInterval(integrate, 50)
    t.after(() => {
      clearInterval(reporting)
      clearInterval(integrating)
      proxy.close()
    })
    await waitFor('the first assignment', () => proxy.allowed !== undefined, learnedDeadlineMs)
    const callers = [new Callers(t, first, 10), new Callers(t, second, 10)] as const
    const startMs = performance.now()
    usedByProxy = 0

    /** What the proxy and the callers admit a second. */
    async function measure(seconds: number) {
      const read = () => [usedByProxy, ...callers.map(({ admitted }) => admitted)]
      const [before, fromMs] = [read(), performance.now()]
      await pause(seconds * 1000)
      const passed = (performance.now() - fromMs) / 1000
      const [ofProxy = 0, one = 0, two = 0] = read().map(
        (value, nth) => (value - (before[nth] ?? 0)) / passed,
      )
      const text = `proxy ${ofProxy.toFixed(1)}, callers ${one.toFixed(1)} and ${two.toFixed(1)}`
      t.diagnostic(text)
      return { ofProxy, one, two, sum: ofProxy + one + two, text }
    }
    /** Two reports of the proxy, and a change in the processes. */
    const converge = () => measure(13)

    await converge()
    const mostForProxy = await measure(6)
    assert.ok(mostForProxy.ofProxy > 70 && mostForProxy.one > 9 && mostForProxy.two > 9, mostForProxy.text)

    proxy.demand = 10
    for (const each of callers) each.callsPerSecond = 150
    await converge()
    const mostForCalls = await measure(6)
    assert.ok(mostForCalls.ofProxy >= 9 && mostForCalls.one > 35 && mostForCalls.two > 35, mostForCalls.text)

    proxy.demand = 200
    await converge()
    const fair = await measure(6)
    for (const each of [fair.ofProxy, fair.one, fair.two]) assert.ok(each > 28 && each < 38, fair.text)
    assert.ok(fair.sum >= limitPerSecond * 0.95, fair.text)

    callers[1].stop()
    await second.program.end('SIGTERM')
    await converge()
    const without = await measure(6)
    assert.ok(without.ofProxy > 42 && without.one > 42, without.text)

    integrate()
    const total = usedByProxy + callers[0].admitted + callers[1].admitted
    const most = limitPerSecond * ((performance.now() - startMs) / 1000 + 1)
    t.diagnostic(`${total.toFixed(0)} admitted, of at most ${most.toFixed(0)}`)
    assert.ok(total <= most)
    assert.equal(callers[0].errors + callers[1].errors, 0)
  })

  test('the example starts everything with one command, and its Envoys admit the limit together', async t => {
    if (!requireProgram(t, 'envoy')) return
    const example = join(root, 'examples/limits/quota/run.ts')
    const program = startProgram(process.execPath, [example, '--seconds', '60'])
    t.after(async () => {
      await program.end('SIGTERM')
    })
    assert.equal(await program.exited(), 0, program.output())
    t.diagnostic(program.output())
    const row = /^(\d+) +\d+ → (\d+) +\d+ → (\d+) +(\d+)/gm
    const rows = [...program.output().matchAll(row)].map(([, ...cells]) => cells.map(Number))
    assert.equal(rows.length, 12)
    const [second, firstAdmits = 0, secondAdmits = 0, all = 0] = rows.at(-1) ?? []
    assert.equal(second, 60)
    assert.ok(all >= 85 && all <= 105, `${all} of 100 a second`)
    assert.ok(firstAdmits < secondAdmits, `${firstAdmits} and ${secondAdmits}`)
  })
})
