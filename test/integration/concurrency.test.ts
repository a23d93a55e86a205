import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { startBackendProxy } from '../support/backend-proxy.ts'
import { startEnvoy } from '../support/envoy.ts'
import { requireProgram } from '../support/require-server.ts'
import { root, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const example = 'limits/concurrency/envoy.yaml'
const shippedTimeout = '0.500s'
const limit = 20

/** An application that answers a request when the test allows it, and counts those that run at the same time. */
async function startApplication(t: TestContext) {
  const open: (() => void)[] = []
  const running = { now: 0, most: 0, answersAtOnce: false }
  const server = createServer((_, response) => {
    running.now += 1
    running.most = Math.max(running.most, running.now)
    response.on('close', () => {
      running.now -= 1
    })
    if (running.answersAtOnce) setImmediate(() => response.end())
    else open.push(() => response.end())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => void server.closeAllConnections())
  t.after(async () => void server.close())
  return {
    port: (server.address() as AddressInfo).port,
    running,
    answerAll: () => {
      for (const end of open.splice(0)) end()
    },
  }
}

/**
 * Starts the example with two processes on one Redis, and an application. By default its Envoys wait longer for a decision
 * than in the example, so that no request is let through on a busy machine.
 */
async function start(t: TestContext, leaseSeconds: number, timeout = '5s') {
  const text = readFileSync(join(root, 'examples/limits/concurrency/limits.yaml'), 'utf8')
  const limits = text.replace('leaseSeconds: 30', `leaseSeconds: ${leaseSeconds}`)
  const tollway = await startTollway(t, { 'limits.yaml': limits }, [
    ...['--replicas', '2', '--env', 'BACKEND_DEADLINE=5s'],
  ])
  await tollway.ready()
  const application = await startApplication(t)
  const change = (config: string) =>
    config
      .replace(`timeout: ${shippedTimeout}`, `timeout: ${timeout}`)
      .replace(/(cluster_name: app\n[\s\S]*?port_value: )\d+/, `$1${application.port}`)
  const openEnvoy = (servicePort = tollway.grpcPort) =>
    startEnvoy(t, servicePort, { concurrency: 2, example, change })
  const ask = async (port: number, tenant = 'acme') => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-tenant': tenant } })
    await response.arrayBuffer()
    return response.status
  }
  /** Resolves with the number of hits that are held. */
  const held = async () => {
    const entries = [{ key: 'tenant', value: 'acme' }]
    const body = JSON.stringify({ domain: 'concurrency', descriptors: [{ entries, hitsAddend: '0' }] })
    const response = await fetch(`http://127.0.0.1:${tollway.httpPort}/json`, { method: 'POST', body })
    const { statuses } = (await response.json()) as { statuses: readonly { limitRemaining?: number }[] }
    return limit - (statuses[0]?.limitRemaining ?? 0)
  }
  return { ...application, grpcPort: tollway.grpcPort, openEnvoy, ask, held }
}

test('behind two Envoys no more than N requests run at the same time, also under load', async t => {
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const { openEnvoy, ask, held, running, answerAll } = await start(t, 30)
  const envoys = await Promise.all([openEnvoy(), openEnvoy()])
  const portOf = (number: number) => envoys[number % envoys.length]?.ingressPort ?? 0
  const codes: number[] = []
  const count = (code: number) => codes.filter(each => each === code).length
  const all = Promise.all(
    Array.from({ length: 3 * limit }, async (_, number) => void codes.push(await ask(portOf(number)))),
  )
  await waitFor('all rejections', () => codes.length === 2 * limit)
  assert.ok(
    codes.every(code => code === 429),
    `${codes}`,
  )
  await waitFor('all admitted requests to run', () => running.now === limit)
  assert.equal(await held(), limit)
  const ofAnotherTenant = ask(portOf(0), 'globex')
  await waitFor('the request of another tenant to run', () => running.now === limit + 1)
  answerAll()
  assert.equal(await ofAnotherTenant, 200)
  await all
  assert.equal(count(200), limit)
  await waitFor('all holds to be given back', async () => (await held()) === 0)

  running.answersAtOnce = true
  running.most = 0
  let admitted = 0
  await Promise.all(
    Array.from({ length: 4 * limit }, async (_, number) => {
      for (let call = 0; call < 25; call++) if ((await ask(portOf(number))) === 200) admitted += 1
    }),
  )
  assert.ok(running.most <= limit, `${running.most} ran at the same time`)
  assert.ok(admitted > 2 * limit, `${admitted} were admitted`)
  await waitFor('all holds to be given back', async () => (await held()) === 0)
})

test('with the timeout of the example, requests whose decision takes 100 ms hold their hits', async t => {
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const { grpcPort, openEnvoy, ask, held, running, answerAll } = await start(t, 30, shippedTimeout)
  const proxy = await startBackendProxy({ targetPort: grpcPort, seed: 1 })
  t.after(() => proxy.stop())
  const { ingressPort } = await openEnvoy(proxy.port)
  await proxy.setFault({ kind: 'latency', ms: 100 })
  const codes: number[] = []
  const all = Array.from({ length: 2 * limit }, async () => void codes.push(await ask(ingressPort)))
  await waitFor('all decisions', () => codes.length + running.now === 2 * limit)
  assert.equal(running.now, limit)
  assert.equal(await held(), limit)
  await proxy.setFault()
  answerAll()
  await Promise.all(all)
  assert.equal(codes.filter(code => code === 429).length, limit)
  await waitFor('all holds to be given back', async () => (await held()) === 0)
})

test('what a killed Envoy held ends with its lease, and not before', async t => {
  const leaseSeconds = 8
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const { openEnvoy, ask, held, running, answerAll } = await start(t, leaseSeconds)
  const [first, second] = [await openEnvoy(), await openEnvoy()]
  const beganMs = performance.now()
  const asked = Array.from({ length: limit }, () => ask(first.ingressPort).catch(() => 0))
  await waitFor('all requests to run', () => running.now === limit)
  await first.kill()
  await Promise.all(asked)
  assert.equal(await held(), limit, 'nobody gave the holds back')
  assert.equal(await ask(second.ingressPort), 429)
  await waitFor('the leases to be over', async () => (await held()) === 0, 2_000 * leaseSeconds)
  assert.ok(performance.now() - beganMs >= 1_000 * leaseSeconds, 'no hold has ended early')
  const next = ask(second.ingressPort)
  await waitFor('the request to run', () => running.now > 0)
  answerAll()
  assert.equal(await next, 200)
})
