import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { QueryError } from '../../operator/pods/query-error.ts'
import { createPodSessions } from '../../operator/ratelimit-queries/create-pod-sessions.ts'
import type { PodSessions } from '../../operator/ratelimit-queries/pod-sessions.ts'
import { startBackendProxy } from '../support/backend-proxy.ts'
import { callBudgets } from '../support/call-budgets.ts'
import { startMemcached } from '../support/memcached-server.ts'
import type { RateLimitProcess } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { resourceOf, startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const limitPerDay = (limit: number) => `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: ${limit}}
  - key: path
    value: /pay
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
`

async function ask(process: RateLimitProcess, user: string, times: number, key = 'user'): Promise<number[]> {
  const codes: number[] = []
  for (let call = 0; call < times; call++) codes.push(await process.ask('shop', key, user))
  return codes
}

const at = (value: string) => ({ domain: 'shop', entries: [{ key: 'user', value }] })

async function failure(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => assert.fail('no error'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof QueryError, `${error}`)
  return `${error.code} ${error.field}`.trim()
}

async function connected(sessions: PodSessions, pods: number): Promise<void> {
  await waitFor('the domain at all pods', async () => {
    const { items } = await sessions.domains()
    return items.find(({ domain }) => domain === 'shop')?.pods === pods
  })
}

/** Reads, resets and raises one counter with two processes that have a local cache. */
async function changesOneCounter(t: TestContext, env: Readonly<Record<string, string>>): Promise<void> {
  const { port, sessions } = await startReportingOperator(t, limitPerDay(3))
  const withCache = { ...env, LocalCacheSizeInBytes: '1000000' }
  const [one, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid, withCache)))
  assert.ok(one && two)
  await connected(sessions, 2)
  assert.deepEqual(await ask(one, 'alice', 4), [200, 200, 200, 429])
  assert.deepEqual(await ask(two, 'alice', 1), [429])
  const before = (await sessions.counter(at('alice'))).counters[0]
  assert.deepEqual([before?.rule, before?.limit, before?.remaining], ['shop.user', 3, 0])
  assert.ok((before?.value ?? 0) >= 4 && (before?.resetSeconds ?? 0) > 0)
  const reset = await sessions.reset(at('alice'))
  assert.deepEqual([reset.counters[0]?.value, reset.confirmed, reset.missing], [0, ['a', 'b'], []])
  assert.deepEqual(await ask(two, 'alice', 2), [200, 200])
  assert.deepEqual(await ask(one, 'alice', 2), [200, 429])
  const raised = await sessions.raise(at('alice'), 2)
  assert.equal(raised.counters[0]?.value, 2)
  assert.deepEqual(await ask(two, 'alice', 2), [200, 429])
}

const missingRedis = missingProgram('redis-server')

function redisEnv(port: number) {
  return { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${port}` }
}

/**
 * Reserves in the counters of two processes, and reads, resets and raises them by their operator. Processes
 * that count in memory have reservations of their own.
 */
async function tellsReservations(t: TestContext, env: Readonly<Record<string, string>>): Promise<void> {
  const { port, sessions } = await startReportingOperator(t, limitPerDay(10))
  const withCache = { ...env, LocalCacheSizeInBytes: '1000000' }
  const [one, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid, withCache)))
  assert.ok(one && two)
  await connected(sessions, 2)
  const { reserve, release, commit } = callBudgets(t, one.grpcPort)
  const read = async () => {
    const { counters, reservations } = await sessions.counter(at('alice'))
    return [counters[0]?.value, reservations?.count, reservations?.amount]
  }
  assert.deepEqual(await read(), [0, 0, 0])
  const make = async (amount: bigint, seconds: bigint) => {
    const { result } = await reserve({
      ...{ domain: 'shop', descriptor: at('alice'), amount, ttl: { seconds } },
    })
    assert.ok(result.case === 'reservation')
    return result.value.id
  }
  const later = await make(3n, 600n)
  const first = await make(5n, 60n)
  const { counters, reservations } = await sessions.counter(at('alice'))
  assert.deepEqual([counters[0]?.value, counters[0]?.algorithm], [8, 'FixedWindow'])
  assert.deepEqual(
    reservations?.first.map(({ id, amount }) => [id, amount]),
    [
      [first, 5],
      [later, 3],
    ],
  )
  const [ends = 0, endsLater = 0] =
    reservations?.first.map(({ expiresAtMs }) => expiresAtMs - Date.now()) ?? []
  assert.ok(ends > 30_000 && ends <= 60_000 && endsLater > 570_000 && endsLater <= 600_000)
  assert.equal(reservations?.nextExpiryMs, reservations?.first[0]?.expiresAtMs)

  // Fills the local cache of this process.
  assert.deepEqual(await ask(one, 'alice', 3), [200, 200, 429])
  const reset = await sessions.reset(at('alice'))
  assert.deepEqual([reset.counters[0]?.value, reset.reservations], [0, reservations])
  assert.deepEqual(await ask(one, 'alice', 6), Array(6).fill(200))
  await release({ id: first })
  assert.deepEqual(
    await read(),
    [1, 1, 3],
    'what the reservation gives back is taken from what was counted since',
  )
  await sessions.raise(at('alice'), 4)
  assert.deepEqual(await read(), [-3, 1, 3])
  await commit({ id: later, actual: 1n })
  assert.deepEqual(await read(), [-3, 0, 0], 'nothing is given back below 0')
}

// Most of the time the tests wait for the reports of each second, and of five seconds.
describe('the sessions of rate limit processes', { concurrency: 4 }, () => {
  test('totals of two pods are summed, and rules are paginated', async t => {
    const { port, sessions } = await startReportingOperator(t, limitPerDay(3))
    const [one, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid)))
    assert.ok(one && two)
    await connected(sessions, 2)
    await Promise.all([ask(one, 'alice', 5), ask(two, 'alice', 4), ask(two, '/pay', 3, 'path')])
    const rules = await waitFor('the totals', async () => {
      const { items } = await sessions.rules('shop')
      return (
        items.reduce((sum, { allowed, refused, shadow }) => sum + allowed + refused + shadow, 0) === 12 &&
        items
      )
    })
    const counts = rules.map(({ rule, allowed, refused, shadow }) => [rule, allowed, refused, shadow])
    assert.deepEqual(counts, [
      ['shop.path_/pay', 2, 0, 1],
      ['shop.user', 6, 3, 0],
    ])
    assert.deepEqual(rules[1]?.pods['b'], { calls: 4, allowed: 3, refused: 1, near: 1, shadow: 0 })
    const first = await sessions.rules('shop', { limit: 1 })
    assert.equal(first.next, 'shop.path_/pay')
    assert.equal((await sessions.rules('shop', { after: first.next })).items[0]?.rule, 'shop.user')
    const pods = (await sessions.pods()).items
    assert.deepEqual(
      pods.map(({ uid, isReporting, backend }) => [uid, isReporting, backend]),
      [
        ['a', true, 'memory'],
        ['b', true, 'memory'],
      ],
    )
    assert.equal(await failure(sessions.rules('other')), 'unknown-domain domain')
    assert.equal(await failure(sessions.pods({ limit: 0 })), 'invalid limit')
  })

  test('a counter in Redis is read, reset and raised, and no local cache rejects afterwards', {
    skip: missingRedis,
  }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    await changesOneCounter(t, redisEnv(redis.port))
  })

  test('a counter of a script in Redis is read, reset and raised', { skip: missingRedis }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    await changesOneCounter(t, { ...redisEnv(redis.port), STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' })
  })

  test('a counter in memcached is read, reset and raised, and grants no more than was counted', {
    skip: missingProgram('memcached'),
  }, async t => {
    const memcached = await startMemcached()
    t.after(() => memcached.stop())
    await changesOneCounter(t, {
      BACKEND_TYPE: 'memcache',
      MEMSTORE_HOST_PORT: `127.0.0.1:${memcached.port}`,
    })
  })

  test('reservations in Redis are told, and a reset and a raise keep their amounts', {
    skip: missingRedis,
  }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    await tellsReservations(t, { ...redisEnv(redis.port), BACKEND_DEADLINE: '5s' })
  })

  test('reservations in the memory of two pods are told, and a reset and a raise keep their amounts', t =>
    tellsReservations(t, {}))

  test('counters in the memory of two pods are summed, and a raise is divided among them', async t => {
    const { port, sessions } = await startReportingOperator(t, limitPerDay(3))
    const [one, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid)))
    assert.ok(one && two)
    await connected(sessions, 2)
    await Promise.all([ask(one, 'bob', 4), ask(two, 'bob', 2)])
    const { counters } = await sessions.counter(at('bob'))
    assert.deepEqual([counters[0]?.value, counters[0]?.limit, counters[0]?.remaining], [6, 6, 0])
    const raised = await sessions.raise(at('bob'), 10)
    assert.equal(raised.counters[0]?.value, -4)
    assert.deepEqual(await ask(one, 'bob', 5), [200, 200, 200, 200, 429])
    await sessions.reset(at('bob'))
    assert.deepEqual(await ask(two, 'bob', 4), [200, 200, 200, 429])
  })

  test('wrong arguments, and a tap that no setting allows, are errors with a code', async t => {
    const { port, sessions } = await startReportingOperator(t, limitPerDay(3))
    assert.equal(await failure(sessions.counter(at('x'))), 'no-pods')
    await startReportingProcess(t, port, 'a')
    await connected(sessions, 1)
    assert.equal(await failure(sessions.counter({ ...at('x'), domain: 'none' })), 'unknown-domain domain')
    assert.equal(await failure(sessions.reset({ domain: 'shop', entries: [] })), 'no-rule entries')
    for (const by of [0, -1, 0.5, 2 ** 53])
      assert.equal(await failure(sessions.raise(at('x'), by)), 'invalid by')
    const { signal } = new AbortController()
    const tap = sessions.tap({ domain: 'shop' }, signal)[Symbol.asyncIterator]()
    assert.equal(await failure(tap.next()), 'switched-off')
  })

  test('a paused pod is not read, and is named by a reset', { skip: missingRedis }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const { port, sessions, table } = await startReportingOperator(t, limitPerDay(3), {
      deadlines: { counterMs: 300, forgetMs: 300 },
    })
    const pods = await Promise.all(
      ['a', 'b'].map(uid => startReportingProcess(t, port, uid, redisEnv(redis.port))),
    )
    await connected(sessions, 2)
    // The process that has reported last is asked first, so that it is the one to stop.
    const [a, b] = table.sessions().toSorted((x, y) => (x.identity.uid < y.identity.uid ? -1 : 1))
    const isFirstLast = (a?.state.lastReportMs ?? 0) > (b?.state.lastReportMs ?? 0)
    const [late, other] = isFirstLast ? ['a', 'b'] : ['b', 'a']
    const stopped = pods[isFirstLast ? 0 : 1]?.program.process
    assert.ok(stopped)
    stopped.kill('SIGSTOP')
    t.after(() => stopped.kill('SIGCONT'))
    // The other pod needs longer than 300 ms on a loaded machine, too.
    const { counters } = await waitFor('the other pod to be read', () => sessions.counter(at('x')))
    assert.equal(counters[0]?.value, 0)
    const { missing } = await waitFor('the other pod to confirm', async () => {
      const change = await sessions.reset(at('x'))
      return change.confirmed.join() === other && change
    })
    assert.deepEqual(missing, [late])
    stopped.kill('SIGCONT')
    await waitFor('both pods to confirm', async () => (await sessions.reset(at('x'))).confirmed.length === 2)
  })

  test('a lost Redis is an error of each call, and the problem of the pod', {
    skip: missingRedis,
  }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const { port, sessions } = await startReportingOperator(t, limitPerDay(3))
    await startReportingProcess(t, port, 'a', { ...redisEnv(redis.port), BACKEND_DEADLINE: '100ms' })
    await connected(sessions, 1)
    await redis.kill('SIGKILL')
    const calls = [sessions.counter(at('x')), sessions.reset(at('x')), sessions.raise(at('x'), 1)]
    assert.deepEqual(await Promise.all(calls.map(failure)), Array(3).fill('backend-failed'))
    await waitFor(
      'the problem of the pod',
      async () => (await sessions.pods()).items[0]?.backendProblem !== '',
    )
  })

  test('a killed pod counts as silent, and is named by a reset, until it is known to be gone', async t => {
    const removed = new Set<string>()
    const options = { isRemoved: (uid: string) => removed.has(uid) }
    const { port, sessions } = await startReportingOperator(t, limitPerDay(3), options)
    const [, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid)))
    await connected(sessions, 2)
    two?.program.process.kill('SIGKILL')
    const states = async () => {
      const { items } = await sessions.pods()
      return items.map(({ pod, isReporting }) => `${pod} ${isReporting}`).join()
    }
    await waitFor('the pod to be silent', async () => (await states()) === 'a true,b false')
    const reset = async () => {
      const { confirmed, missing } = await sessions.reset(at('x'))
      return [confirmed, missing]
    }
    assert.deepEqual(await reset(), [['a'], ['b']])
    removed.add('b')
    await waitFor('the pod to be gone', async () => (await states()) === 'a true')
    assert.deepEqual(await reset(), [['a'], []])
  })

  test('after a restart of the operator, a reset names the pods that have not connected again', async t => {
    const expected = () => ['a', 'b'].map(uid => ({ uid, name: `pod-${uid}` }))
    const first = await startReportingOperator(t, limitPerDay(3), { expected })
    const [, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, first.port, uid)))
    await connected(first.sessions, 2)
    two?.program.process.kill('SIGSTOP')
    t.after(() => two?.program.process.kill('SIGCONT'))
    await first.stop()
    const { sessions } = await startReportingOperator(t, limitPerDay(3), { port: first.port, expected })
    await connected(sessions, 1)
    const { confirmed, missing } = await sessions.reset(at('x'))
    assert.deepEqual([confirmed, missing], [['a'], ['pod-b']])
    two?.program.process.kill('SIGCONT')
    await connected(sessions, 2)
    const again = await sessions.reset(at('x'))
    assert.deepEqual([again.confirmed, again.missing], [['a', 'b'], []])
  })

  test('a reset that is answered too late drops the key from the caches of all pods', {
    skip: missingRedis,
  }, async t => {
    const redis = await startRedis()
    const proxy = await startBackendProxy({ targetPort: redis.port, seed: 1 })
    t.after(async () => {
      await proxy.stop()
      await redis.stop()
    })
    const { port, sessions, table } = await startReportingOperator(t, limitPerDay(1))
    const hasty = createPodSessions({
      ...{ table, clock: systemClock, deadlines: { counterMs: 50, forgetMs: 10_000 } },
    })
    const env = { ...redisEnv(proxy.port), LocalCacheSizeInBytes: '1000000', BACKEND_DEADLINE: '10s' }
    const pods = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid, env)))
    await connected(sessions, 2)
    for (const pod of pods) await ask(pod, 'alice', 2)
    await proxy.setFault({ kind: 'latency', ms: 200 })
    assert.equal(await failure(hasty.reset(at('alice'))), 'deadline')
    await proxy.setFault()
    const valueNow = async () => (await sessions.counter(at('alice'))).counters[0]?.value
    await waitFor('the reset', async () => (await valueNow()) === 0)
    const codes: number[] = []
    for (const pod of pods) codes.push(...(await ask(pod, 'alice', 1)))
    assert.deepEqual(codes, [200, 429])
  })

  test('1,000 ended watches leave no subscription, and a pod decides without its operator', async t => {
    const { port, sessions, stop } = await startReportingOperator(t, limitPerDay(1))
    const process = await startReportingProcess(t, port, 'a', {
      ...{ DECISION_TAP: 'true', DECISION_RECORDING_BYTES: '0' },
    })
    await connected(sessions, 1)
    for (let watch = 0; watch < 1_000; watch++) {
      const ending = new AbortController()
      const reading = sessions.tap({ domain: 'shop', rule: `rule ${watch}` }, ending.signal)
      const first = reading[Symbol.asyncIterator]().next()
      ending.abort()
      await first
      // The answer shows that the process has read the requests before.
      if (watch % 100 === 99) await sessions.counter(at('x'))
    }
    // More than the 200 subscriptions that a process runs at once: each of the earlier ones has ended.
    const ending = new AbortController()
    const seen: string[] = []
    const tap = (async () => {
      for await (const { decisions } of sessions.tap({ domain: 'shop' }, ending.signal)) {
        for (const { entries } of decisions) seen.push(entries[0]?.value ?? '')
      }
    })()
    await sessions.counter(at('x'))
    await ask(process, 'alice', 1)
    await waitFor('the tap', () => seen.length > 0)
    assert.deepEqual(seen, ['alice'])
    ending.abort()
    await tap
    await stop()
    assert.deepEqual(await ask(process, 'alice', 1), [429])
  })

  test('a series, the top keys and a tap show calls, and end with their reader', async t => {
    const { port, sessions, table } = await startReportingOperator(t, limitPerDay(1))
    const process = await startReportingProcess(t, port, 'a', {
      DECISION_TAP: 'true',
      DECISION_KEYS_HASHED: 'false',
    })
    await connected(sessions, 1)
    const ending = new AbortController()
    const { signal } = ending
    const points = { allowed: 0, refused: 0 }
    const seen: string[] = []
    const series = (async () => {
      for await (const { allowed, refused } of sessions.series(
        { domain: 'shop', rule: 'shop.user' },
        signal,
      )) {
        points.allowed += allowed
        points.refused += refused
      }
    })()
    const tap = (async () => {
      for await (const { decisions } of sessions.tap({ domain: 'shop' }, signal)) {
        for (const { entries, over, reason } of decisions) seen.push(`${entries[0]?.value} ${over} ${reason}`)
      }
    })()
    const first = await sessions.top({ domain: 'shop', rule: 'shop.user', by: 'rejected' })
    assert.deepEqual([first.keys, first.missing], [[], []])
    await ask(process, 'alice', 5)
    await ask(process, 'bob', 3)
    await waitFor('the tap', () => seen.length === 8)
    assert.equal(seen.at(-1), 'bob true over the limit of 1 per day')
    await waitFor('the series', () => points.allowed === 2 && points.refused === 6)
    const top = await waitFor('the top keys', async () => {
      const { keys } = await sessions.top({ domain: 'shop', rule: 'shop.user', by: 'rejected' })
      return keys.length === 2 && keys
    })
    assert.deepEqual(
      top.map(({ entries, count, error }) => [entries[0]?.value, count, error]),
      [
        ['alice', 4, 0],
        ['bob', 2, 0],
      ],
    )
    ending.abort()
    await Promise.all([series, tap])
    assert.equal(table.sessions().length, 1)
  })

  test('a what-if shows what a lower limit would have rejected, and which keys it affects', async t => {
    const { port, sessions } = await startReportingOperator(t, limitPerDay(5))
    const process = await startReportingProcess(t, port, 'a')
    await connected(sessions, 1)
    await ask(process, 'alice', 6)
    await ask(process, 'bob', 2)
    const steps: string[] = []
    const { signal } = new AbortController()
    const whatIf = async (yaml: string) => {
      for await (const step of sessions.whatIf({ domain: 'shop', resource: resourceOf(yaml) }, signal)) {
        steps.push(step.kind)
        if (step.kind === 'result') return step.result
      }
      return assert.fail('no result')
    }
    const result = await whatIf(limitPerDay(1))
    assert.equal(steps.at(0), 'progress')
    // Calls before the recording could have been counted on this day.
    const bounds = (refusedAtLeast: number) => ({ refusedAtLeast, refusedAtMost: 8 })
    assert.deepEqual(result.now, [{ rule: 'shop.user', allowed: 7, refused: 1, ...bounds(1) }])
    assert.deepEqual(result.proposed, [{ rule: 'shop.user', allowed: 2, refused: 6, ...bounds(6) }])
    assert.deepEqual(
      result.keys.map(({ entries, hits, refusedNow, refusedProposed }) => [
        entries[0]?.value,
        hits,
        refusedNow,
        refusedProposed,
      ]),
      [
        ['alice', 6, 1, 5],
        ['bob', 2, 0, 1],
      ],
    )
    const { recordedCalls, calls, pods, missing } = result.coverage
    assert.deepEqual([recordedCalls, calls, pods, missing], [8, 8, 1, []])
    const wrong = limitPerDay(1).replace('domain: shop', 'domain: other')
    const error = await whatIf(wrong).catch((reason: unknown) => reason)
    assert.match(`${error}`, /the configuration is not of the domain 'shop'/)
  })

  test('two workers of one pod are watched and replayed as one, and two readers see the same', {
    skip: missingRedis,
  }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const { port, sessions, table } = await startReportingOperator(t, limitPerDay(5))
    const env = { ...redisEnv(redis.port), WORKERS: '2' }
    const process = await startReportingProcess(t, port, 'a', env)
    await waitFor('both workers', () => {
      const ready = table.sessions().filter(({ state }) => state.domains.has('shop'))
      return ready.length === 2
    })
    const ending = new AbortController()
    const seen = [0, 0]
    const readers = seen.map(async (_, reader) => {
      for await (const { allowed, refused } of sessions.series({ domain: 'shop' }, ending.signal)) {
        seen[reader] = (seen[reader] ?? 0) + allowed + refused
      }
    })
    await sessions.top({ domain: 'shop', rule: 'shop.user', by: 'hits' })
    // The answer shows that the workers have read the subscriptions.
    await sessions.reset(at('alice'))
    // Calls at once have a connection each, so that both workers get some.
    await Promise.all(Array.from({ length: 8 }, () => process.ask('shop', 'user', 'alice')))
    await waitFor('the series of both readers', () => seen.every(hits => hits === 8))
    const top = await waitFor('the top key', async () => {
      const { keys } = await sessions.top({ domain: 'shop', rule: 'shop.user', by: 'hits' })
      return keys[0]?.count === 8 && keys
    })
    assert.equal(top.length, 1)
    const query = { domain: 'shop', resource: resourceOf(limitPerDay(2)) }
    const steps = await Array.fromAsync(sessions.whatIf(query, ending.signal))
    const result = steps.find(step => step.kind === 'result')?.result
    const { recordedCalls, calls, share, pods, missing } = result?.coverage ?? assert.fail('no result')
    assert.deepEqual([recordedCalls, calls, share, pods, missing], [8, 8, 1, 1, []])
    ending.abort()
    await Promise.all(readers)
  })

  test('a pod reconnects after a restart of the operator, and reports all its totals again', async t => {
    const first = await startReportingOperator(t, limitPerDay(5))
    const process = await startReportingProcess(t, first.port, 'a')
    await connected(first.sessions, 1)
    await ask(process, 'alice', 2)
    await first.stop()
    const { sessions } = await startReportingOperator(t, limitPerDay(5), { port: first.port })
    await connected(sessions, 1)
    const rules = await waitFor('the totals', async () => {
      const { items } = await sessions.rules('shop')
      return items.length > 0 && items
    })
    assert.equal(rules[0]?.allowed, 2)
  })

  test('with hashed keys no value leaves the process', async t => {
    const { port, sessions } = await startReportingOperator(t, limitPerDay(1))
    const env = { DECISION_TAP: 'true', DECISION_KEYS_HASHED: 'true', DECISION_KEYS_SALT: 'salt' }
    const [one, two] = await Promise.all(['a', 'b'].map(uid => startReportingProcess(t, port, uid, env)))
    assert.ok(one && two)
    await connected(sessions, 2)
    const of = { domain: 'shop', rule: 'shop.user', by: 'hits' } as const
    await sessions.top(of)
    // The answers show that both pods have begun to count keys.
    await sessions.reset(at('alice'))
    await Promise.all([ask(one, 'alice', 2), ask(two, 'alice', 3)])
    const keys = await waitFor('the sum of both pods', async () => {
      const top = await sessions.top(of)
      return top.keys[0]?.count === 5 && top.keys
    })
    assert.equal(keys.length, 1)
    assert.match(keys[0]?.entries[0]?.value ?? '', /^[0-9a-f]{16}$/)
  })
})
