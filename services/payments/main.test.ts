import assert from 'node:assert/strict'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSettings } from '@tollway/chassis/settings.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { missingPostgres, startPostgres } from '../../test/support/postgres-server.ts'
import { type Program, startProgram } from '../../test/support/program.ts'
import { programs } from '../../test/support/programs.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { basic, merchantInput } from './http/testing/api-under-test.ts'
import { settings } from './settings.ts'

function start(env: Readonly<Record<string, string>>): Program {
  return startProgram(process.execPath, [programs.payments], { env: { PATH: process.env['PATH'], ...env } })
}

async function statusOf(url: string, token?: string): Promise<number> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  return (await fetch(url, { headers }).catch(() => undefined))?.status ?? 0
}

test('the program serves on PostgreSQL, reports its state, and drains', {
  skip: missingPostgres(),
}, async t => {
  const server = await startPostgres()
  const folder = temporaryFolder('tollway-payments')
  t.after(async () => {
    await server.stop()
  })
  const urlFile = join(folder, 'database-url')
  await writeFile(urlFile, `${await server.createDatabase('payments')}?password=top-secret\n`)
  const tokenFile = join(folder, 'token')
  await writeFile(tokenFile, 'provision-secret')
  const [port = 0, debugPort = 0, provisionPort = 0] = await freePorts(3)
  const running = start({
    STATE_DIR: join(folder, 'state'),
    DATABASE_URL_FILE: urlFile,
    HOST: '127.0.0.1',
    PORT: String(port),
    DEBUG_PORT: String(debugPort),
    PROVISION_PORT: String(provisionPort),
    PROVISION_TOKEN_FILE: tokenFile,
    DRAIN_DELAY: '400ms',
    PAY_ATTEMPTS_PER_ADDRESS: '1',
    TRUSTED_PROXIES: '127.0.0.0/8',
    LOG_LEVEL: 'debug',
  })
  t.after(() => running.end())
  const api = `http://127.0.0.1:${port}`
  const debug = `http://127.0.0.1:${debugPort}`
  await waitFor(
    `readiness:\n${running.output()}`,
    async () => (await statusOf(`${debug}/readyz`)) === 200,
    30_000,
  )
  assert.equal(await statusOf(`${api}/readyz`), 200, 'a ready service accepts requests')
  const provisioning = `http://127.0.0.1:${provisionPort}/`
  assert.deepEqual(
    [await statusOf(provisioning), await statusOf(provisioning, 'provision-secret')],
    [401, 404],
  )
  await writeFile(tokenFile, 'rotated-secret')
  assert.deepEqual(
    [await statusOf(provisioning, 'provision-secret'), await statusOf(provisioning, 'rotated-secret')],
    [401, 404],
  )
  const made = await fetch(`${api}/apps`, { method: 'POST' })
  const { app } = (await made.json()) as { app: { key: string } }
  const page = await fetch(`${api}/pay/?key=nobody`, { headers: { accept: 'text/html' } })
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
  await assertAttemptsLimited(api, app.key)
  const metrics = await (await fetch(`${debug}/metrics`)).text()
  assert.match(metrics, /payments_http_requests_total\{route="\/apps",method="POST",status="201"\} 1\n/)
  assert.match(await (await fetch(`${debug}/stats`)).text(), /^payments_database_transactions_running: \d+$/m)

  await server.kill('SIGKILL')
  await waitFor('the failure', async () => (await statusOf(`${debug}/backend`)) === 503, 20_000)
  assert.deepEqual([await statusOf(`${debug}/readyz`), await statusOf(`${api}/readyz`)], [200, 200])
  assert.match(await (await fetch(`${debug}/metrics`)).text(), /^payments_backend_failing 1$/m)
  await server.restart()
  await waitFor('the recovery', async () => (await statusOf(`${debug}/backend`)) === 200, 20_000)

  const stopped = running.end()
  await waitFor('the end of readiness', async () => (await statusOf(`${debug}/readyz`)) === 503)
  assert.equal(await statusOf(`${api}/readyz`), 503)
  assert.equal(await statusOf(`${debug}/readyz?draining=ok`), 200, 'it accepts requests')
  assert.equal(await statusOf(`${api}/healthz`), 200)
  assert.equal(await stopped, 0, running.output())
  for (const secret of [app.key, 'top-secret', 'provision-secret', 'rotated-secret'])
    assert.ok(!running.output().includes(secret))
  const state = join(folder, 'state', 'payments')
  assert.deepEqual((await readdir(state)).sort(), ['pay-page-secret', 'test-processor-key'])
  assert.equal((await stat(join(state, 'test-processor-key'))).mode & 0o777, 0o600)
})

/**
 * Asserts that payments on the page are limited by the address that the proxy reports, and API calls are not.
 */
async function assertAttemptsLimited(api: string, key: string): Promise<void> {
  const made = await fetch(`${api}/merchants`, {
    method: 'POST',
    headers: { authorization: basic(key), 'content-type': 'application/json' },
    body: JSON.stringify(merchantInput),
  })
  const { merchant } = (await made.json()) as { merchant: { id: string; key: string } }
  const link = `${api}/pay/?key=${merchant.key}&amount=500`
  const attempt = async (address: string) => {
    const page = await (await fetch(link)).text()
    const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? ''
    const card = { number: '4100000000000001', expiry: '12 / 66', code: '123' }
    const headers = { 'x-forwarded-for': address }
    const body = new URLSearchParams({ token, ...card })
    return (await fetch(link, { method: 'POST', redirect: 'manual', headers, body })).status
  }
  assert.deepEqual(
    [await attempt('203.0.113.1'), await attempt('203.0.113.1'), await attempt('203.0.113.2')],
    [303, 429, 303],
  )
  for (let count = 0; count < 3; count += 1) {
    const path = `${api}/merchants/${merchant.id}/transactions?limit=9`
    const headers = { authorization: basic(key), 'x-forwarded-for': '203.0.113.1' }
    const listed = (await (await fetch(path, { headers })).json()) as readonly object[]
    assert.equal(listed.length, 2)
  }
}

test('all wrong settings are reported, and the program exits', async () => {
  const running = start({ PORT: 'x', FUNDING_CURRENCIES: 'DK', FEES: '{"DKK":{"gift":{}}}' })
  assert.equal(await running.exited(), 78)
  for (const name of ['PORT', 'FUNDING_CURRENCIES', 'FEES']) {
    assert.match(running.output(), new RegExp(`^${name}: `, 'm'))
  }
})

test('with a command the program runs it, and does not serve', async () => {
  const running = startProgram(process.execPath, [programs.payments, 'verify', '--help'], {
    env: { PATH: process.env['PATH'] },
  })
  assert.equal(await running.exited(), 0)
  assert.match(running.output(), /^Usage: tollway payments verify/)
})

test('a client authority without a certificate is rejected at the start with its setting', async () => {
  const folder = temporaryFolder('tollway-payments')
  const ca = join(folder, 'ca.crt')
  await writeFile(ca, 'a certificate')
  const running = start({ STATE_DIR: folder, PORT: '0', DEBUG_PORT: '0', PROVISION_TLS_CLIENT_CA: ca })
  await waitFor('the program to end', () => running.process.exitCode !== null)
  assert.equal(running.process.exitCode, 1)
  assert.match(running.output(), /PROVISION_TLS_CLIENT_CA: needs PROVISION_TLS_CERT and PROVISION_TLS_KEY/)
})

test('the monitoring server listens on the loopback address by default', () => {
  const read = readSettings(settings, {}, () => '')
  assert.equal('value' in read && read.value.debugHost, '127.0.0.1')
})
