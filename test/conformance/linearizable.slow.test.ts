import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { RateLimitResponse_Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitCounting, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { seededRandom } from '../support/api-proxy.ts'
import { type BackendFault, type BackendProxy, startBackendProxy } from '../support/backend-proxy.ts'
import { type GoProgram, goProgramPath, missingGoProgram } from '../support/go-program.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import {
  isLinearizable,
  isLinearizableLeased,
  type LeasedCounter,
  type Operation,
  type Outcome,
} from './linearizable.ts'

const porcupine: GoProgram = { name: 'porcupine-check', folder: 'test/conformance/porcupine-check' }

interface History {
  readonly limit: number
  readonly operations: readonly Operation[]
}

function askPorcupine(histories: readonly History[]): readonly boolean[] {
  const input = histories.map(history => JSON.stringify(history)).join('\n')
  const { stdout, stderr } = spawnSync(goProgramPath(porcupine), { input, encoding: 'utf8' })
  assert.equal(stderr, '')
  return stdout
    .trim()
    .split('\n')
    .map(line => line === 'true')
}

/** Returns a linearizable history, of which one outcome may be wrong or one time may be another. */
function randomHistory(random: () => number): History {
  const integer = (below: number) => Math.floor(random() * below)
  const limit = 3 + integer(12)
  const effects = Array.from({ length: 2 + integer(12) }, (_, index) => ({
    atMs: 10 * index,
    hits: 1 + integer(3),
  }))
  let count = 0
  const operations = effects.map(({ atMs, hits }): Operation => {
    const spread = () => integer(random() < 0.3 ? 60 : 12) + random()
    const [startMs, endMs] = [atMs - spread(), atMs + spread()]
    const isLost = random() < 0.2
    if (!isLost || random() < 0.5) count += hits
    if (isLost) return { startMs, hits, outcome: { kind: 'unknown' } }
    const outcome: Outcome = count > limit ? { kind: 'over' } : { kind: 'admitted', after: count }
    return { startMs, endMs, hits, outcome }
  })
  const index = integer(operations.length)
  const changed = operations[index]
  if (random() < 0.15 || changed?.endMs === undefined) return { limit, operations }
  const { outcome, startMs, endMs } = changed
  const wrong: Operation =
    random() < 0.7 && outcome.kind === 'admitted'
      ? { ...changed, outcome: { ...outcome, after: outcome.after + (random() < 0.5 ? 1 : -1) } }
      : { ...changed, startMs: startMs + 45, endMs: endMs + 45 }
  return { limit, operations: operations.with(index, wrong) }
}

test('the checker of histories agrees with porcupine', { skip: missingGoProgram(porcupine) }, () => {
  const random = seededRandom(1)
  const histories = Array.from({ length: 5_000 }, () => randomHistory(random))
  const expected = askPorcupine(histories)
  const good = expected.filter(Boolean).length
  assert.ok(good > 1_000 && good < 4_000, `${good} of ${histories.length} are linearizable`)
  for (const [index, { limit, operations }] of histories.entries()) {
    assert.equal(isLinearizable(limit, operations), expected[index], JSON.stringify(histories[index]))
  }
})

/** Tries all orders of the operations. */
function hasOrder({ limit, held, lost }: LeasedCounter, operations: readonly Operation[], used = 0): boolean {
  if (operations.length === 0) return true
  const firstEndMs = Math.min(...operations.map(({ endMs = Number.POSITIVE_INFINITY }) => endMs))
  return operations.some((operation, index) => {
    const { startMs, hits, outcome } = operation
    if (startMs > firstEndMs) return false
    const goOn = (count: number) =>
      used + count <= limit && hasOrder({ limit, held, lost }, operations.toSpliced(index, 1), used + count)
    if (outcome.kind === 'admitted') return goOn(hits)
    if (outcome.kind === 'over') return used + hits > limit - held && goOn(0)
    return Array.from({ length: hits + lost + 1 }, (_, count) => count).some(goOn)
  })
}

test('the checker of histories of leases agrees with a search of all orders', () => {
  const random = seededRandom(2)
  const integer = (below: number) => Math.floor(random() * below)
  let good = 0
  const count = 5_000
  for (let index = 0; index < count; index++) {
    const counter = { limit: 1 + integer(10), held: integer(4), lost: integer(3) }
    const operations = Array.from({ length: 1 + integer(6) }, (): Operation => {
      const startMs = integer(20) + random() / 2
      const kind = (['admitted', 'admitted', 'over', 'over', 'unknown'] as const)[integer(5)] ?? 'unknown'
      const timed = { startMs, hits: 1 + integer(3), outcome: { kind, after: 1 } }
      return kind === 'unknown' ? timed : { ...timed, endMs: startMs + integer(12) }
    })
    const expected = hasOrder(counter, operations)
    good += Number(expected)
    assert.equal(isLinearizableLeased(counter, operations), expected, JSON.stringify({ counter, operations }))
  }
  assert.ok(good > count / 10 && good < count * 0.9, `${good} of ${count} have an order`)
})

const limit = 200
const faultMs = 250
const seconds = Number(process.env['SECONDS'] ?? 15)

const faults: readonly BackendFault[] = [
  { kind: 'silence' },
  { kind: 'hang-up' },
  { kind: 'refuse' },
  { kind: 'cut', share: 0.3 },
  { kind: 'latency', ms: 30, jitterMs: 60 },
]

interface Client {
  service: RateLimitProcess
  readonly proxy: BackendProxy
}

interface Load {
  readonly limit: number
  readonly callersOfService: number
  /** Returns the number of the key to call, of which each is followed by the next one. */
  readonly keyOf: (passedMs: number, calls: number) => number
  readonly mostHits: number
  /** The longest pause of a caller between two calls. */
  readonly pauseMs: number
}

const exactLoad: Load = {
  ...{ limit, callersOfService: 4, mostHits: 3, pauseMs: 5 },
  keyOf: passedMs => Math.floor(passedMs / 300),
}

/** Calls one key after the other, and returns what each call saw of each key. */
async function record(
  t: TestContext,
  clients: readonly Client[],
  untilMs: number,
  { limit, callersOfService, keyOf, mostHits, pauseMs }: Load,
) {
  const histories = new Map<string, Operation[]>()
  const random = seededRandom(7)
  const startedMs = performance.now()
  let calls = 0
  async function call(client: Client): Promise<void> {
    let { service } = client
    let caller = callRateLimit(t, service.grpcPort)
    while (performance.now() < untilMs) {
      if (client.service !== service) {
        service = client.service
        caller = callRateLimit(t, service.grpcPort)
      }
      const startMs = performance.now()
      const key = `key ${keyOf(startMs - startedMs, calls)}`
      calls += 1
      const hits = 1 + Math.floor(mostHits * random())
      const descriptors = [{ entries: [{ key: 'user', value: key }] }]
      const request = { domain: 'shop', descriptors, hitsAddend: hits }
      const operations = histories.get(key) ?? []
      histories.set(key, operations)
      try {
        const { statuses } = await caller.shouldRateLimit(request, { timeoutMs: 2_000 })
        const { code, limitRemaining = 0 } = statuses[0] ?? {}
        const isOver = code === RateLimitResponse_Code.OVER_LIMIT
        const outcome: Outcome = isOver
          ? { kind: 'over' }
          : { kind: 'admitted', after: limit - limitRemaining }
        operations.push({ startMs, endMs: performance.now(), hits, outcome })
      } catch {
        operations.push({ startMs, hits, outcome: { kind: 'unknown' } })
      }
      await pause(pauseMs * random())
    }
  }
  await Promise.all(clients.flatMap(client => Array.from({ length: callersOfService }, () => call(client))))
  return histories
}

interface Faults {
  /** The longest pause between two faults. */
  readonly restMs: number
  readonly start: (proxy: BackendProxy) => Promise<RateLimitProcess>
}

/** Returns when each fault began and ended. */
async function breakThings(
  clients: readonly Client[],
  redisPid: number | undefined,
  untilMs: number,
  { restMs, start }: Faults,
) {
  const random = seededRandom(3)
  const done: { readonly what: string; readonly startMs: number; readonly endMs: number }[] = []
  const stopFor = async (pid: number | undefined) => {
    if (pid === undefined) return
    process.kill(pid, 'SIGSTOP')
    await pause(faultMs)
    process.kill(pid, 'SIGCONT')
  }
  const run = async ({ proxy, service }: Client, client: Client) => {
    const which = random()
    if (which < 0.1) {
      await service.program.end('SIGKILL')
      client.service = await start(proxy)
      return 'kill'
    }
    if (which < 0.3) {
      await stopFor(service.program.pid)
      return 'pause'
    }
    if (which < 0.4) {
      await stopFor(redisPid)
      return 'pause of Redis'
    }
    await proxy.setFault(faults[Math.floor(random() * faults.length)])
    await pause(faultMs)
    await proxy.setFault()
    return 'link'
  }
  while (performance.now() < untilMs - faultMs) {
    const client = clients[Math.floor(random() * clients.length)]
    if (client === undefined) break
    const startMs = performance.now()
    const what = await run(client, client)
    done.push({ what, startMs, endMs: performance.now() })
    await pause(restMs * random())
  }
  return done
}

/** Starts three services, each with a link of its own to one Redis of these. */
async function startClients(t: TestContext, redisPorts: readonly number[], start: Faults['start']) {
  return Promise.all(
    [1, 2, 3].map(async seed => {
      const proxy = await startBackendProxy({ targetPort: redisPorts[seed % redisPorts.length] ?? 0, seed })
      t.after(() => proxy.stop())
      return { proxy, service: await start(proxy) }
    }),
  )
}

const starter =
  (t: TestContext, env: Readonly<Record<string, string>>): Faults['start'] =>
  async ({ address }) => {
    const backend = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: address }
    const service = await startRateLimit(t, { ...env, ...backend, BACKEND_DEADLINE: '200ms' })
    await service.serves()
    return service
  }

function count(t: TestContext, histories: ReadonlyMap<string, readonly Operation[]>) {
  const all = [...histories.values()].flat()
  const of = (kind: Outcome['kind']) => all.filter(({ outcome }) => outcome.kind === kind).length
  const counts = { keys: histories.size, admitted: of('admitted'), over: of('over'), unknown: of('unknown') }
  t.diagnostic(JSON.stringify(counts))
  return counts
}

test('the counters of three services on one Redis are linearizable, whatever is killed, paused and cut off', {
  skip: missingProgram('redis-server'),
}, async t => {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const files = rateLimitFiles(userLimit(`${limit}/day`))
  const start = starter(t, files.env)
  const clients = await startClients(t, [redis.port], start)
  const untilMs = performance.now() + seconds * 1_000
  const [histories, done] = await Promise.all([
    record(t, clients, untilMs, exactLoad),
    breakThings(clients, redis.pid, untilMs, { restMs: faultMs, start }),
  ])
  t.diagnostic(`${done.map(({ what }) => what).join(', ')}`)

  const { admitted, over, unknown } = count(t, histories)
  assert.ok(admitted > 100 && over > 100 && unknown > 10)
  let noticed = 0
  for (const [key, operations] of histories) {
    assert.ok(isLinearizable(limit, operations), `${key}: ${JSON.stringify(operations)}`)
    // A counter that adds the hits of one call twice is noticed, unless nobody saw a value after it.
    const first = operations.findIndex(({ outcome }) => outcome.kind === 'admitted')
    const { outcome, ...operation } = operations[first] ?? {
      outcome: { kind: 'unknown' } as const,
      hits: 0,
      startMs: 0,
    }
    if (outcome.kind !== 'admitted') continue
    const twice = { ...operation, outcome: { ...outcome, after: outcome.after + operation.hits } }
    if (!isLinearizable(limit, operations.with(first, twice))) noticed += 1
  }
  assert.ok(noticed > histories.size / 2, `a hit that was counted twice is noticed in ${noticed} of all keys`)
})

/** A busy machine makes fewer calls, which must reach the limit of a key all the same. */
const leasedLoad: Load = {
  ...{ limit: 1_000, callersOfService: 12, mostHits: 9, pauseMs: 1 },
  keyOf: (_, calls) => Math.floor(calls / 600),
}
const largestLease = Math.floor(leasedLoad.limit / 16)

async function startLeased(t: TestContext, redisPorts: readonly number[]) {
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  const counting = RateLimitCounting.LEASED
  const rateLimit = { unit: RateLimitUnit.DAY, requestsPerUnit: leasedLoad.limit, counting }
  const shop = { name: 'shop', domain: 'shop', descriptors: [{ key: 'user', rateLimit }] }
  feed.send(encodeResponse('1', [encodeDomain(shop)]))
  const start = starter(t, feed.settings)
  return { start, clients: await startClients(t, redisPorts, start) }
}

test('the admissions of three services with leases are linearizable, and rejections as far as leases allow', {
  skip: missingProgram('redis-server'),
}, async t => {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const { start, clients } = await startLeased(t, [redis.port])
  const untilMs = performance.now() + seconds * 1_000
  const [histories, done] = await Promise.all([
    record(t, clients, untilMs, leasedLoad),
    breakThings(clients, redis.pid, untilMs, { restMs: 6 * faultMs, start }),
  ])
  t.diagnostic(`${done.map(({ what }) => what).join(', ')}`)
  const { admitted, over, unknown } = count(t, histories)
  assert.ok(admitted > 100 && over > 100 && unknown > 10)
  let takes = 0
  for (const { service } of clients) takes += (await service.stats())['ratelimit.leases.takes'] ?? 0
  assert.ok(takes > 10, `${takes} leases were taken`)

  const noticed = { 'too many': 0, 'too early': 0 }
  for (const [key, operations] of histories) {
    const [fromMs, toMs] = [operations[0]?.startMs ?? 0, operations.at(-1)?.endMs ?? untilMs]
    const struck = done.filter(({ startMs, endMs }) => startMs <= toMs && endMs >= fromMs).length
    // While Redis does not answer, each process asks for more at most ten times a second without a call that waits.
    const lostTakes = struck * (1 + Math.ceil(faultMs / 100))
    const held = largestLease * (clients.length + lostTakes)
    const counter = { limit: leasedLoad.limit, held, lost: largestLease }
    assert.ok(isLinearizableLeased(counter, operations), `${key}: ${JSON.stringify(operations)}`)
    const mutants = {
      'too many': operations.map(each =>
        each.outcome.kind === 'over' ? { ...each, outcome: { kind: 'admitted', after: 1 } as const } : each,
      ),
      'too early': [
        { startMs: fromMs - 2, endMs: fromMs - 1, hits: 1, outcome: { kind: 'over' } as const },
        ...operations,
      ],
    }
    for (const name of ['too many', 'too early'] as const) {
      if (!isLinearizableLeased(counter, mutants[name])) noticed[name] += 1
    }
  }
  for (const [name, keys] of Object.entries(noticed)) {
    assert.ok(keys > histories.size / 3, `calls admitted or rejected ${name} are noticed in ${keys} keys`)
  }
})

test('services with leases on two Redis admit more than a limit, which the checker notices', {
  skip: missingProgram('redis-server'),
}, async t => {
  const servers = await Promise.all([startRedis(), startRedis()])
  t.after(() => Promise.all(servers.map(server => server.stop())))
  const ports = servers.map(({ port }) => port)
  const { clients } = await startLeased(t, ports)
  const histories = await record(t, clients, performance.now() + 5_000, leasedLoad)
  const counter = { limit: leasedLoad.limit, held: 3 * largestLease, lost: largestLease }
  const wrong = [...histories.values()].filter(each => !isLinearizableLeased(counter, each))
  assert.ok(wrong.length > 0, `${histories.size} keys`)
})
