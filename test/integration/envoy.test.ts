import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startEnvoy } from '../support/envoy.ts'
import { requireProgram } from '../support/require-server.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const domain = 'checkout'

/** Envoy waits for answers, however busy the machine is. */
const withTime = (config: string) => config.replace('timeout: 0.020s', 'timeout: 5s')

async function statusCodes(port: number, headers: Record<string, string>, calls: number): Promise<number[]> {
  const one = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers })
    await response.arrayBuffer()
    return response.status
  }
  return Promise.all(Array.from({ length: calls }, one))
}

async function hitsOf(debugAddress: string): Promise<number> {
  const stats = (await (await fetch(`${debugAddress}/stats?format=json`)).json()) as Record<string, number>
  return stats['ratelimit_server.ShouldRateLimit.total_requests'] ?? 0
}

test('Envoy lets N of 3N calls through, with one process on memory', async t => {
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
  // New connections all the time: the kernel spreads connections over the processes, not calls.
  const change = (config: string) =>
    withTime(config).replace(
      'max_connection_duration: 300s',
      'max_connection_duration: 300s, max_requests_per_connection: 5',
    )
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 2, change })
  const codes = await statusCodes(ingressPort, { 'x-user': 'alice' }, 3 * limit)
  assert.equal(codes.filter(code => code === 200).length, limit)
  assert.equal(codes.filter(code => code === 429).length, 2 * limit)
  const hits = await Promise.all(replicas.map(({ addresses }) => hitsOf(addresses['debug'] ?? '')))
  assert.ok(
    hits.every(count => count > 0),
    `every process had hits: ${hits}`,
  )
  assert.equal(
    hits.reduce((sum, count) => sum + count, 0),
    3 * limit,
  )
})
