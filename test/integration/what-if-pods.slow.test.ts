import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import type { PodSessions, WhatIfResult } from '../../operator/ratelimit-queries/pod-sessions.ts'
import { callRateLimit, type RateLimitProcess } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { domainOf, startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

type Domain = ReturnType<typeof domainOf>

const skip = missingProgram('redis-server')

/** Starts pods that count in one Redis. */
async function startPods(t: TestContext, uids: readonly string[], domain: Domain, settings = {}) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const { port, ...operator } = await startReportingOperator(t, domain)
  const url = `127.0.0.1:${redis.port}`
  const env = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: url, ...settings }
  const start = (uid: string, more = {}) => startReportingProcess(t, port, uid, { ...env, ...more })
  const pods = await Promise.all(uids.map(uid => start(uid)))
  await connected(operator.sessions, uids.length)
  return { pods, start, ...operator }
}

function connected(sessions: PodSessions, pods: number) {
  return waitFor('the domain at all pods', async () => {
    const { items } = await sessions.domains()
    return items.find(({ domain }) => domain === 'shop')?.pods === pods
  })
}

async function whatIf(sessions: PodSessions, proposed: Domain): Promise<WhatIfResult> {
  const resource = encodeRateLimitDomain(proposed).bytes
  for await (const step of sessions.whatIf({ domain: 'shop', resource }, AbortSignal.timeout(120_000)))
    if (step.kind === 'result') return step.result
  return assert.fail('no result')
}

const perDay = (limit: number) =>
  domainOf(`{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: ${limit}}}]}`)

const pickHits = (rules: WhatIfResult['now']) =>
  rules.map(({ rule, allowed, refused }) => ({ rule, allowed, refused }))

// Most of the time the tests wait for processes to start.
describe('a what-if over several pods with one Redis', { concurrency: 2, skip }, () => {
  test('users with one call each, at one pod or another, meet no limit of one', async t => {
    const { pods, sessions } = await startPods(t, ['a', 'b'], perDay(3))
    for (let user = 0; user < 10; user++) {
      assert.equal(await pods[user % 2]?.ask('shop', 'user', `user ${user}`), 200)
    }
    const { now, proposed, keys, coverage } = await whatIf(sessions, perDay(1))
    assert.deepEqual(pickHits(now), [{ rule: 'shop.user', allowed: 10, refused: 0 }])
    assert.deepEqual(pickHits(proposed), pickHits(now))
    assert.deepEqual(keys, [])
    const { recordedCalls, calls, pods: count, missing } = coverage
    assert.deepEqual([recordedCalls, calls, count, missing], [10, 10, 2, []])
  })

  test('the calls of a user at both pods are counted together, and each once', async t => {
    const { pods, sessions } = await startPods(t, ['a', 'b'], perDay(3))
    // A quarter of the users calls one pod only.
    for (let user = 0; user < 40; user++) {
      for (const call of [0, 1]) {
        const pod = pods[user % 4 === 0 ? 0 : call]
        assert.equal(await pod?.ask('shop', 'user', `user ${user}`), 200)
      }
    }
    const { now, proposed, keys } = await whatIf(sessions, perDay(1))
    assert.deepEqual(pickHits(now), [{ rule: 'shop.user', allowed: 80, refused: 0 }])
    assert.deepEqual(pickHits(proposed), [{ rule: 'shop.user', allowed: 40, refused: 40 }])
    assert.deepEqual([keys.length, keys[0]?.hits, keys[0]?.refusedProposed], [40, 2, 1])
  })

  test('rules with match and groupBy are replayed, and proposed', async t => {
    const matching = (ipv4Prefix: number, shareThreshold: boolean): Domain => {
      const base = perDay(3)
      const [rule] = base.descriptors
      assert.ok(rule)
      const networks = { match: { cidr: ['10.0.0.0/8'] }, groupBy: { ipv4Prefix } }
      const paths = { match: { prefix: '/api/' }, shareThreshold }
      return {
        ...base,
        descriptors: [
          { ...rule, key: 'ip', value: 'inside', ...networks },
          { ...rule, key: 'path', value: 'api', ...paths },
        ],
      }
    }
    const { pods, sessions } = await startPods(t, ['a', 'b'], matching(24, true))
    const codes: (number | undefined)[] = []
    const addresses = [
      '10.0.0.1',
      '10.0.0.2',
      '::ffff:10.0.0.3',
      '10.0.0.4',
      '10.0.1.1',
      '10.0.1.2',
      '192.0.2.1',
    ]
    const paths = ['/api/a', '/api/b', '/api/c', '/api/d', '/api/e', '/docs']
    for (const [key, values] of Object.entries({ ip: addresses, path: paths })) {
      for (const [call, value] of values.entries()) {
        codes.push(await pods[call % 2]?.ask('shop', key, value))
        // Calls of two pods in one millisecond have no order.
        const answeredMs = Date.now()
        await waitFor('the next millisecond', () => Date.now() > answeredMs)
      }
    }
    assert.deepEqual(codes.join(), '200,200,200,429,200,200,200,200,200,200,429,429,200')
    const { now, proposed, keys } = await whatIf(sessions, matching(16, false))
    assert.deepEqual(pickHits(now), [
      { rule: 'shop.ip_inside', allowed: 5, refused: 1 },
      { rule: 'shop.path_api', allowed: 3, refused: 2 },
    ])
    assert.deepEqual(pickHits(proposed), [
      { rule: 'shop.ip_inside', allowed: 3, refused: 3 },
      { rule: 'shop.path_api', allowed: 5, refused: 0 },
    ])
    const changed = keys.map(({ entries, refusedNow, refusedProposed }) => {
      return `${entries[0]?.value} ${refusedNow} ${refusedProposed}`
    })
    assert.deepEqual(changed.toSorted(), ['/api/d 1 0', '/api/e 1 0', '10.0.1.1 0 1', '10.0.1.2 0 1'])
  })

  test('with hashed keys, pods send their calls encrypted', async t => {
    const salted = { DECISION_KEYS_HASHED: 'true', DECISION_KEYS_SALT: 'salt' }
    const { pods, sessions, table } = await startPods(t, ['a', 'b'], perDay(3), salted)
    const parts: Buffer[] = []
    for (const session of table.sessions()) {
      const { receive } = session
      session.receive = report => {
        if (report.case === 'part') parts.push(Buffer.from(report.value.calls))
        receive(report)
      }
    }
    for (const pod of pods) for (const _ of [1, 2]) await pod.ask('shop', 'user', 'alice')
    const { now, keys } = await whatIf(sessions, perDay(1))
    assert.deepEqual(pickHits(now), [{ rule: 'shop.user', allowed: 3, refused: 1 }])
    assert.match(keys[0]?.entries[0]?.value ?? '', /^[0-9a-f]{16}$/)
    assert.ok(parts.length > 0)
    for (const part of parts) assert.ok(!part.includes('alice') && !part.includes('user'))
  })

  test('a pod that ended is missing, and one that started later is named', async t => {
    const { pods, start, sessions } = await startPods(t, ['a', 'b'], perDay(3))
    for (const pod of pods) await pod.ask('shop', 'user', 'alice')
    await pods[1]?.program.end('SIGKILL')
    const { missing, calls } = (await whatIf(sessions, perDay(1))).coverage
    assert.deepEqual([missing, calls], [['b'], 1])
    // A recording begins with a whole second.
    const readSecond = () => Math.floor(Date.now() / 1000)
    const second = readSecond()
    await waitFor('the next second', () => readSecond() > second)
    const workers = await start('c', { WORKERS: '2' })
    await connected(sessions, 2)
    for (const _ of [1, 2, 3]) await workers.ask('shop', 'user', 'alice')
    const { now, coverage } = await whatIf(sessions, perDay(1))
    assert.deepEqual([coverage.started, coverage.missing, coverage.pods], [['c'], ['b'], 2])
    assert.deepEqual(pickHits(now), [{ rule: 'shop.user', allowed: 3, refused: 1 }])
  })

  test('the decisions of a full recording are replayed exactly, with every algorithm', async t => {
    const { pods, sessions } = await startPods(t, ['a', 'b', 'c'], everyAlgorithm)
    const decided = await callAll(t, pods)
    // Statistics of a fixed window count only the rejected hits of a call that is partly over.
    const rules = await waitFor('the totals of all calls', async () => {
      const { items } = await sessions.rules('shop')
      const bucket = items.find(({ rule }) => rule === 'shop.bucket')
      return (bucket?.allowed ?? 0) + (bucket?.refused ?? 0) === decided.hits && items
    })
    const real = rules.map(({ rule, refused }) => ({ rule, allowed: decided.hits - refused, refused }))
    const { now, proposed, keys, coverage } = await whatIf(sessions, everyAlgorithm)
    assert.deepEqual(pickHits(now), real)
    assert.deepEqual([pickHits(proposed), keys], [pickHits(now), []])
    const { recordedCalls, calls, share, missing } = coverage
    assert.deepEqual([recordedCalls, calls, share, missing], [decided.calls, decided.calls, 1, []])
    for (const { refused } of real) assert.ok(refused > 100, JSON.stringify(real))
  })
})

const policy = (unit: string, requestsPerUnit: number, options = {}) => ({
  ...{ unit, requestsPerUnit, unlimited: false, name: '', replaces: [], ...options },
})

/** A rule for each algorithm; each call has a descriptor for each rule. */
const everyAlgorithm: Domain = (() => {
  const base = perDay(1)
  const [rule] = base.descriptors
  assert.ok(rule)
  const { rateLimit: _, ...bare } = rule
  const descriptors = [
    { ...bare, key: 'fixed', rateLimit: policy('minute', 4) },
    // Redis drops a counter one window after its first hit: a call that takes longer than the rest of its window
    // may be counted anew. Windows of five seconds end several times, and calls take less.
    { ...bare, key: 'second', rateLimit: policy('second', 3, { unitMultiplier: 5 }) },
    { ...bare, key: 'sliding', rateLimit: policy('minute', 4, { algorithm: 'SlidingWindow' }) },
    { ...bare, key: 'bucket', rateLimit: policy('minute', 4, { algorithm: 'TokenBucket', burst: 5 }) },
    { ...bare, key: 'limits', limits: [policy('second', 3, { unitMultiplier: 5 }), policy('minute', 4)] },
  ]
  return { ...base, descriptors } as Domain
})()

const users = 10_000
const callsOfAll = Number(process.env['WHAT_IF_CALLS'] ?? 12_000)

/** Calls of users by a Zipf distribution, at pods by chance. One user calls again after its last answer. */
async function callAll(t: TestContext, pods: readonly RateLimitProcess[]) {
  const callers = pods.map(({ grpcPort }) => callRateLimit(t, grpcPort))
  const random = seeded(7)
  const draw = zipf(users)
  const before = new Map<number, Promise<unknown>>()
  let [hits, left] = [0, callsOfAll]
  async function callOne(): Promise<void> {
    const user = draw(random())
    const hitsAddend = random() < 0.1 ? 2 : 1
    hits += hitsAddend
    const descriptors = everyAlgorithm.descriptors.map(({ key }) => ({
      entries: [{ key, value: `user ${user}` }],
    }))
    const caller = callers[Math.floor(random() * callers.length)]
    const call = (before.get(user) ?? Promise.resolve()).then(() =>
      caller?.shouldRateLimit({ domain: 'shop', descriptors, hitsAddend }),
    )
    before.set(user, call)
    await call
  }
  const lane = async () => {
    while (left-- > 0) await callOne()
  }
  await Promise.all(Array.from({ length: 50 }, lane))
  return { hits, calls: callsOfAll }
}

/** Returns a function from a uniform number to a rank from 0, with probabilities like 1 / (rank + 1). */
function zipf(ranks: number): (uniform: number) => number {
  const sums: number[] = []
  for (let rank = 0; rank < ranks; rank++) sums.push((sums.at(-1) ?? 0) + 1 / (rank + 1))
  const total = sums.at(-1) ?? 0
  return uniform => {
    let [low, high] = [0, ranks - 1]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((sums[middle] ?? 0) < uniform * total) low = middle + 1
      else high = middle
    }
    return low
  }
}

function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return (state >>> 8) / 2 ** 24
  }
}
