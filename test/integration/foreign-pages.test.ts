import assert from 'node:assert/strict'
import { request } from 'node:http'
import { test } from 'node:test'
import { freePorts } from '../support/free-ports.ts'
import { startTollway } from '../support/tollway.ts'

/** Sends what a browser sends for a web page, and resolves with the status. */
function ask(port: number, method: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, method, path, headers }, response => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    call.once('error', reject).end()
  })
}

test('a page of another site cannot read or change an operator on this machine', async t => {
  const [operatorPort = 0, debugPort = 0, brokerDebugPort = 0, metricsPort = 0, paymentsDebugPort = 0] =
    await freePorts(5)
  const options = {
    'broker-replicas': 1,
    'operator-port': operatorPort,
    'debug-port': debugPort,
    'broker-debug-port': brokerDebugPort,
    'metrics-port': metricsPort,
    'payments-debug-port': paymentsDebugPort,
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`])
  await startTollway(t, {}, ['--payments', '--metrics', ...args])
  const pages = {
    '/status': operatorPort,
    '/stats': debugPort,
    '/streams': brokerDebugPort,
    '/metrics': metricsPort,
    '/readyz': paymentsDebugPort,
  }
  for (const [path, port] of Object.entries(pages)) {
    assert.equal(await ask(port, 'GET', path, {}), 200, path)
    assert.equal(await ask(port, 'GET', path, { host: 'localhost:1' }), 200, path)
    assert.equal(await ask(port, 'GET', path, { host: `rebound.example:${port}` }), 403, path)
    assert.equal(await ask(port, 'POST', path, { origin: 'https://evil.example' }), 403, path)
  }
  const stream = '/streams/kiosk-1'
  assert.equal(await ask(brokerDebugPort, 'DELETE', stream, { origin: 'https://evil.example' }), 403)
  assert.equal(await ask(brokerDebugPort, 'DELETE', stream, { 'sec-fetch-site': 'cross-site' }), 403)
  assert.equal(await ask(brokerDebugPort, 'DELETE', stream, {}), 200)
})
