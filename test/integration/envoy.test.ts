import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startEnvoy } from '../support/envoy.ts'
import { requireProgram } from '../support/require-server.ts'
import { manifest, root, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const domain = 'checkout'

const ietfDraft = ['--env', 'RESPONSE_HEADERS=ietf-draft', '--env', 'PROBLEM_DETAILS=true']

/** The timeout of Envoy is long enough for a busy machine. */
const withTime = (config: string) => config.replace('timeout: 0.020s', 'timeout: 5s')

async function statusCodes(port: number, headers: Record<string, string>, calls: number): Promise<number[]> {
  const one = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers })
    await response.arrayBuffer()
    return response.status
  }
  return Promise.all(Array.from({ length: calls }, one))
}

const totalRequests = 'ratelimit_server.ShouldRateLimit.total_requests'

async function readStat(debugAddress: string, name: string): Promise<number> {
  const stats = (await (await fetch(`${debugAddress}/stats?format=json`)).json()) as Record<string, number>
  return stats[name] ?? 0
}

test('Envoy lets N of 3N calls through, with one process and counters in memory', async t => {
  if (!requireProgram(t, 'envoy')) return
  const tollway = await startTollway(t, { 'c.yaml': manifest('c', domain, { user: '20/day' }) })
  await tollway.ready()
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 2, change: withTime })
  const codes = await statusCodes(ingressPort, { 'x-user': 'alice' }, 60)
  assert.equal(codes.filter(code => code === 200).length, 20)
  assert.equal(codes.filter(code => code === 429).length, 40)
})

test('Envoy lets calls through again after a window of three seconds', async t => {
  if (!requireProgram(t, 'envoy')) return
  const windowSeconds = 3
  const limits = manifest('c', domain, { user: '5/second' }).replace(
    'unit: second',
    `unit: second, unitMultiplier: ${windowSeconds}`,
  )
  assert.match(limits, /unitMultiplier/)
  const tollway = await startTollway(t, { 'c.yaml': limits })
  await tollway.ready()
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 2, change: withTime })
  const windowAt = () => Math.floor(Date.now() / 1000 / windowSeconds)
  const before = windowAt()
  const admitted = (await statusCodes(ingressPort, { 'x-user': 'alice' }, 30)).filter(code => code === 200)
  const windows = windowAt() - before + 1
  assert.ok(
    admitted.length >= 5 && admitted.length <= 5 * windows,
    `${admitted.length} in ${windows} windows`,
  )
  await waitFor('the next window', async () => {
    const [code] = await statusCodes(ingressPort, { 'x-user': 'alice' }, 1)
    return code === 200
  })
  assert.ok(windowAt() > before, 'no call is let through in the window of the others')
})

test('a client of a token bucket behind Envoy is admitted after the Retry-After of its 429', async t => {
  if (!requireProgram(t, 'envoy')) return
  const bucket = manifest('c', domain, { user: '1/second' }).replace(
    'unit: second',
    'algorithm: TokenBucket, name: pages, burst: 4, unit: second, unitMultiplier: 2',
  )
  assert.match(bucket, /burst: 4/)
  const tollway = await startTollway(t, { 'c.yaml': bucket }, ietfDraft)
  await tollway.ready()
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 1, change: withTime })
  const get = () => fetch(`http://127.0.0.1:${ingressPort}/`, { headers: { 'x-user': 'alice' } })
  const admitted: string[] = []
  let rejected = await get()
  while (rejected.status === 200) {
    admitted.push(`${rejected.headers.get('ratelimit')}`)
    await rejected.arrayBuffer()
    rejected = await get()
  }
  assert.ok(admitted.length >= 4, `${admitted}`)
  assert.match(`${admitted[0]}`, /^"pages";r=3;t=\d+$/)
  assert.equal(rejected.status, 429)
  assert.equal(rejected.headers.get('ratelimit-policy'), '"pages";q=1;w=2')
  const retryAfter = Number(rejected.headers.get('retry-after'))
  assert.equal(rejected.headers.get('ratelimit'), `"pages";r=0;t=${retryAfter}`)
  assert.ok(retryAfter >= 1 && retryAfter <= 2, `${retryAfter}`)
  assert.equal(rejected.headers.get('content-type'), 'application/problem+json')
  const problem = (await rejected.json()) as Record<string, unknown>
  assert.equal(problem['type'], 'https://iana.org/assignments/http-problem-types#quota-exceeded')
  assert.deepEqual(problem['violated-policies'], ['pages'])
  const rejectedMs = performance.now()
  await waitFor(
    'the time of the Retry-After',
    async () => performance.now() >= rejectedMs + 1000 * retryAfter,
  )
  assert.equal((await get()).status, 200)
})

test('Envoy gets a limit per 15 seconds and one per day on one descriptor', async t => {
  if (!requireProgram(t, 'envoy')) return
  const several = manifest('c', domain, { user: '3/day' }).replace(
    /rateLimit: (\{.*\})\}/,
    'limits: [{name: fast, unit: second, unitMultiplier: 15, requestsPerUnit: 2}, $1]}',
  )
  assert.match(several, /limits: \[/)
  const tollway = await startTollway(t, { 'c.yaml': several }, ietfDraft)
  await tollway.ready()
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 1, change: withTime })
  const get = async (user: string) => {
    const response = await fetch(`http://127.0.0.1:${ingressPort}/`, { headers: { 'x-user': user } })
    await response.arrayBuffer()
    return response
  }
  // The calls of one user are in one window of 15 seconds; a window that ends between them is tried again.
  const windowAt = () => Math.floor(Date.now() / 15_000)
  const callsInOneWindow = async (user: string): Promise<readonly Response[]> => {
    const window = windowAt()
    const responses = [await get(user), await get(user), await get(user)]
    return windowAt() === window ? responses : callsInOneWindow(`${user}+`)
  }
  const responses = await callsInOneWindow('alice')
  assert.deepEqual(
    responses.map(({ status }) => status),
    [200, 200, 429],
  )
  const { headers } = responses[2] as Response
  assert.equal(headers.get('ratelimit-policy'), '"fast";q=2;w=15, "1";q=3;w=86400')
  // The rejected call is not counted by the limit of the day.
  const [, left, reset] = /^"fast";r=0;t=(\d+), "1";r=1;t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? []
  assert.equal(headers.get('retry-after'), left, 'the limit of the day is not reached')
  assert.ok(Number(reset) > 0)
})

test('Envoy lets N of 3N calls through, with two processes on one Redis that both had hits', async t => {
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const limit = 100
  const tollway = await startTollway(t, { 'c.yaml': manifest('c', domain, { user: `${limit}/day` }) }, [
    '--replicas',
    '2',
    '--env',
    'BACKEND_DEADLINE=5s',
  ])
  const { replicas } = await tollway.ready()
  // The requests use new connections: the kernel spreads connections over the processes, not calls.
  const change = (config: string) =>
    withTime(config).replace(
      'max_connection_duration: 300s',
      'max_connection_duration: 300s, max_requests_per_connection: 5',
    )
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 2, change })
  const codes = await statusCodes(ingressPort, { 'x-user': 'alice' }, 3 * limit)
  assert.equal(codes.filter(code => code === 200).length, limit)
  assert.equal(codes.filter(code => code === 429).length, 2 * limit)
  const hits = await Promise.all(
    replicas.map(({ addresses }) => readStat(addresses['debug'] ?? '', totalRequests)),
  )
  assert.ok(
    hits.every(count => count > 0),
    `every process had hits: ${hits}`,
  )
  assert.equal(
    hits.reduce((sum, count) => sum + count, 0),
    3 * limit,
  )
})

const budget = 'unit: year, requestsPerUnit: 100, countRejected: true'

/** Rules for values of `team`, beside the rule of the example for every other value. */
const budgets = {
  fixed: `rateLimit: {${budget}}`,
  sliding: `rateLimit: {algorithm: SlidingWindow, ${budget}}`,
  bucket: `rateLimit: {algorithm: TokenBucket, ${budget}}`,
  several: `limits: [{${budget}}, {algorithm: SlidingWindow, ${budget}}, {algorithm: TokenBucket, ${budget}}]`,
}

for (const allOrNothing of [false, true]) {
  test(`costs that Envoy reports when a stream is done use up the budget, allOrNothing: ${allOrNothing}`, async t => {
    if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
    const example = readFileSync(join(root, 'examples/limits/token-budget/limits.yaml'), 'utf8')
    const rules = Object.entries(budgets).map(
      ([value, limits]) => `    - {key: team, value: ${value}, ${limits}}\n`,
    )
    const limits = example.replace('  descriptors:', `  allOrNothing: ${allOrNothing}\n  descriptors:`)
    const files = { 'limits.yaml': limits + rules.join('') }
    const tollway = await startTollway(t, files, ['--replicas', '2', '--env', 'BACKEND_DEADLINE=5s'])
    const { replicas } = await tollway.ready()
    const { ingressPort } = await startEnvoy(t, tollway.grpcPort, {
      concurrency: 1,
      example: 'limits/token-budget/envoy.yaml',
      change: withTime,
    })
    for (const team of ['search', ...Object.keys(budgets)]) {
      const rule = team === 'search' ? '' : `_${team}`
      const member = team === 'several' ? '.0' : ''
      const total = `ratelimit.service.rate_limit.token-budget.team${rule}${member}.total_hits`
      const hits = async () => {
        const counts = await Promise.all(
          replicas.map(({ addresses }) => readStat(addresses['debug'] ?? '', total)),
        )
        return counts.reduce((sum, count) => sum + count, 0)
      }
      const codes: number[] = []
      for (let call = 1; call <= 6; call += 1) {
        const [code = 0] = await statusCodes(ingressPort, { 'x-team': team }, 1)
        codes.push(code)
        if (code === 200) await waitFor('the cost of the call', async () => (await hits()) === 30 * call)
      }
      assert.deepEqual(codes, [200, 200, 200, 200, 429, 429], team)
      assert.equal(await hits(), 120, 'the example states how much more than 100 is used')
    }
  })
}
