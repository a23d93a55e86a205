import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePorts } from '../../test/support/free-ports.ts'
import { missingPostgres, startPostgres } from '../../test/support/postgres-server.ts'
import { type Program, startProgram } from '../../test/support/program.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const main = fileURLToPath(new URL('main.ts', import.meta.url))

function start(env: Readonly<Record<string, string>>): Program {
  return startProgram(process.execPath, [main], { env: { PATH: process.env['PATH'], ...env } })
}

async function statusOf(url: string): Promise<number> {
  return (await fetch(url).catch(() => undefined))?.status ?? 0
}

test('the program serves on PostgreSQL, tells of itself, and drains', {
  skip: missingPostgres(),
}, async t => {
  const server = await startPostgres()
  const folder = await mkdtemp(join(tmpdir(), 'tollway-payments-'))
  t.after(async () => {
    await server.stop()
    await rm(folder, { recursive: true })
  })
  const urlFile = join(folder, 'database-url')
  await writeFile(urlFile, `${await server.createDatabase('payments')}?password=top-secret\n`)
  const [port = 0, debugPort = 0, provisionPort = 0] = await freePorts(3)
  const running = start({
    STATE_DIR: join(folder, 'state'),
    DATABASE_URL_FILE: urlFile,
    HOST: '127.0.0.1',
    PORT: String(port),
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: String(debugPort),
    PROVISION_PORT: String(provisionPort),
    PROVISION_TOKEN: 'provision-secret',
    DRAIN_DELAY: '400ms',
    LOG_LEVEL: 'debug',
  })
  t.after(() => running.end())
  const api = `http://127.0.0.1:${port}`
  const debug = `http://127.0.0.1:${debugPort}`
  await waitFor(
    `readiness:\n${running.output()}`,
    async () => (await statusOf(`${api}/readyz`)) === 200,
    30_000,
  )
  assert.equal(await statusOf(`${debug}/readyz`), 200)
  assert.equal(await statusOf(`http://127.0.0.1:${provisionPort}/`), 401)
  const made = await fetch(`${api}/apps`, { method: 'POST' })
  const { app } = (await made.json()) as { app: { key: string } }
  const page = await fetch(`${api}/pay/?key=nobody`, { headers: { accept: 'text/html' } })
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
  const metrics = await (await fetch(`${debug}/metrics`)).text()
  assert.match(metrics, /payments_http_requests_total\{route="\/apps",method="POST",status="201"\} 1\n/)
  assert.match(await (await fetch(`${debug}/stats`)).text(), /^payments_database_transactions_running: \d+$/m)

  const stopped = running.end()
  await waitFor('the end of readiness', async () => (await statusOf(`${debug}/readyz`)) === 503)
  assert.equal(await statusOf(`${api}/healthz`), 200)
  assert.equal(await stopped, 0, running.output())
  for (const secret of [app.key, 'top-secret', 'provision-secret'])
    assert.ok(!running.output().includes(secret))
  const state = join(folder, 'state', 'payments')
  assert.deepEqual((await readdir(state)).sort(), ['pay-page-secret', 'test-processor-key'])
  assert.equal((await stat(join(state, 'test-processor-key'))).mode & 0o777, 0o600)
})

test('settings that are wrong are all told, and end the program', async () => {
  const running = start({ PORT: 'x', FUNDING_CURRENCIES: 'DK', FEES: '{"DKK":{"gift":{}}}' })
  assert.equal(await running.exited(), 1)
  for (const name of ['PORT', 'FUNDING_CURRENCIES', 'FEES']) {
    assert.match(running.output(), new RegExp(`^${name}: `, 'm'))
  }
})
