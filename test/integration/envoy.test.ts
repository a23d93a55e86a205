import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { requireProgram } from '../support/require-server.ts'
import { manifest, root, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const domain = 'checkout'

/** The sidecar of the examples on ports of its own, with changes that the test names. */
async function startEnvoy(
  t: TestContext,
  tollway: Tollway,
  change: (config: string) => string,
): Promise<number> {
  const [ingress = 0, admin = 0, app = 0] = await freePorts(3)
  const place = mkdtempSync(join(tmpdir(), 'envoy-'))
  const config = readFileSync(join(root, 'examples/envoy/envoy.yaml'), 'utf8')
    .replaceAll('port_value: 10001', `port_value: ${app}`)
    .replace('port_value: 10000', `port_value: ${ingress}`)
    .replace('port_value: 9901', `port_value: ${admin}`)
    .replace('port_value: 8081', `port_value: ${tollway.grpcPort}`)
  writeFileSync(join(place, 'envoy.yaml'), change(config))
  const args = ['-c', join(place, 'envoy.yaml'), '--use-dynamic-base-id', '--concurrency', '2', '-l', 'warn']
  const envoy = startProgram('envoy', args)
  t.after(async () => {
    await envoy.end('SIGKILL')
    rmSync(place, { recursive: true, force: true })
  })
  await waitFor('Envoy to take calls', async () => {
    if (envoy.process.exitCode !== null) throw new Error(envoy.output())
    return (await fetch(`http://127.0.0.1:${admin}/ready`)).ok
  })
  return ingress
}

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
  const port = await startEnvoy(t, tollway, config => config.replace('timeout: 0.020s', 'timeout: 5s'))
  const codes = await statusCodes(port, { 'x-user': 'alice' }, 60)
  assert.equal(codes.filter(code => code === 200).length, 20)
  assert.equal(codes.filter(code => code === 429).length, 40)
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
  const port = await startEnvoy(t, tollway, config =>
    config
      .replace('timeout: 0.020s', 'timeout: 5s')
      .replace(
        'max_connection_duration: 300s',
        'max_connection_duration: 300s, max_requests_per_connection: 5',
      ),
  )
  const codes = await statusCodes(port, { 'x-user': 'alice' }, 3 * limit)
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
