import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { freePorts } from '../../test/support/free-ports.ts'
import {
  findPostgresProgram,
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../test/support/postgres-server.ts'
import { type Program, startProgram } from '../../test/support/program.ts'
import { programs } from '../../test/support/programs.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { basic, merchantInput } from './http/testing/api-under-test.ts'

/** Approved cards of each scheme, a declined one, one with 3-D Secure, and those of a fraud and a dispute. */
const canaries = [
  '4100 0000 0000 0001',
  '4929 1378 4651 0279',
  '5500 0000 0000 0004',
  '4100 0000 0100 7005',
  '4100 0000 0300 2004',
  '4100 0000 0400 1005',
  '4100 0000 0400 2003',
]
const code = '739'

interface Running {
  readonly postgres: PostgresServer
  readonly program: Program
  readonly folder: string
  readonly url: string
  readonly debugUrl: string
}

async function start(t: TestContext): Promise<Running> {
  const postgres = await startPostgres()
  const folder = temporaryFolder('tollway-payments')
  const databaseUrl = await postgres.createDatabase('payments')
  const [port = 0, debugPort = 0] = await freePorts(2)
  const program = startProgram(process.execPath, [programs.payments], {
    env: {
      PATH: process.env['PATH'],
      STATE_DIR: folder,
      DATABASE_URL: databaseUrl,
      DRAIN_DELAY: '0s',
      HOST: '127.0.0.1',
      PORT: `${port}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      LOG_LEVEL: 'debug',
      TEST_PROCESSOR_EVENT_DELAY: '0s',
      BACKGROUND_INTERVAL: '50ms',
    },
  })
  t.after(async () => {
    await program.end()
    await postgres.stop()
  })
  const url = `http://127.0.0.1:${port}`
  const isReady = async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.ok === true
  await waitFor(() => `readiness: ${program.output()}`, isReady, 30_000)
  return { postgres, program, folder, url, debugUrl: `http://127.0.0.1:${debugPort}` }
}

/** Returns a client that records every answer of the service. */
function createClient(url: string, answers: string[]) {
  let key = ''
  async function call(method: string, path: string, body: object | string = {}, more: object = {}) {
    const headers = {
      ...(key === '' ? {} : { authorization: basic(key) }),
      'content-type': typeof body === 'string' ? 'application/x-www-form-urlencoded' : 'application/json',
      ...more,
    }
    const content = typeof body === 'string' ? body : JSON.stringify(body)
    const init = {
      method,
      headers,
      redirect: 'manual',
      ...(method === 'GET' ? {} : { body: content }),
    } as const
    const response = await fetch(url + path, init)
    const text = await response.text()
    // Records the headers too, because the address of a redirect stays in the browser's history.
    answers.push(text.replace(numbersToTry, ''), JSON.stringify([...response.headers]))
    return text
  }
  const json = async (method: string, path: string, body?: object) =>
    JSON.parse(await call(method, path, body))
  return {
    call,
    json,
    use(given: string) {
      key = given
    },
  }
}

type Client = ReturnType<typeof createClient>

/** Matches the list of test cards, whose numbers the page of a test account shows on purpose. */
const numbersToTry = /<details class="test-cards">.*?<\/details>/s

const hiddenIn = (page: string, name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1]

/** Pays as a browser does, and answers the bank's challenge. */
async function payOnPage(client: Client, publicKey: string, number: string, amount: number): Promise<void> {
  const link = new URLSearchParams({ key: publicKey, currency: 'DKK', amount: `${amount}` })
  const token = hiddenIn(await client.call('GET', `/pay/?${link}`), 'token') ?? ''
  const card = new URLSearchParams({ token, number, expiry: '08 / 66', code })
  const next = await client.call('POST', `/pay/?${link}`, card.toString())
  const ticket = hiddenIn(next, 'ticket')
  if (ticket === undefined) return
  const answer = new URLSearchParams({ ticket, answer: 'yes' })
  await client.call('POST', `/pay/confirm?${link}`, answer.toString())
}

/** Enters the number into other fields, as a user could do by mistake. */
async function misplace(
  client: Client,
  merchantId: string,
  transactionId: string,
  number: string,
): Promise<void> {
  const digits = number.replaceAll(' ', '')
  await client.call('GET', `/transactions/${digits}`)
  await client.call('GET', `/merchants/${merchantId}/lines?limit=1&before=${digits}&${digits}=${code}`)
  await client.call('POST', `/transactions/${transactionId}/captures`, {
    amount: digits,
    [digits]: number,
    code,
  })
  await client.call('POST', `/transactions/${transactionId}/voids`, `amount=${digits}&code=${code}`)
  await client.call('POST', `/merchants/${merchantId}/cards`, { number, code, transactionId: digits })
  await client.call('POST', `/merchants/${merchantId}/users`, { email: digits })
  const headers = { 'idempotency-key': digits, 'x-request-id': digits, 'user-agent': number }
  await client.call('POST', `/transactions/${transactionId}/captures`, { amount: 1 }, headers)
  await client.call('POST', `/merchants`, `{"number": ${digits}`, { 'content-type': 'application/json' })
}

/** Resolves with all data that the database has written: a dump and the files of the server. */
async function writtenBy({ postgres }: Running): Promise<readonly (readonly [string, Buffer])[]> {
  await postgres.sql('CHECKPOINT')
  const dump = await promisify(execFile)(
    findPostgresProgram('pg_dump') ?? 'pg_dump',
    [postgres.urlOf('payments')],
    { maxBuffer: 256 * 1024 * 1024 },
  )
  const data = await postgres.sql('SHOW data_directory')
  const database = await postgres.sql("SELECT oid FROM pg_database WHERE datname = 'payments'")
  return [
    ['the dump', Buffer.from(dump.stdout)],
    ...filesIn(join(data, 'pg_wal')),
    ...filesIn(join(data, 'base', database)),
  ]
}

function filesIn(folder: string): readonly (readonly [string, Buffer])[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(({ name }) => [name, readFileSync(join(folder, name))])
}

test('card numbers and codes are in no log, table, log of the database, metric, event or answer', {
  skip: missingPostgres(),
}, async t => {
  const running = await start(t)
  const answers: string[] = []
  const client = createClient(running.url, answers)
  client.use((await client.json('POST', '/apps', { name: 'till' })).app.key)
  const { merchant } = await client.json('POST', '/merchants', merchantInput)
  for (const [index, number] of canaries.entries()) {
    await payOnPage(client, merchant.key, number, 1_000 + index)
    await payOnPage(client, merchant.key, number.replaceAll(' ', ''), 2_000 + index)
  }
  const list = `/merchants/${merchant.id}/transactions?limit=100`
  const made: { id: string; successful: boolean }[] = await client.json('GET', list)
  assert.ok(made.length >= canaries.length, `${made.length} transactions`)
  for (const { id } of made) await client.call('POST', `/transactions/${id}/captures`, { amount: 10 })
  for (const number of canaries) await misplace(client, merchant.id, made[0]?.id ?? '', number)
  const disputes = `/disputes?limit=9&filter[merchantId]=${merchant.id}`
  await waitFor('a dispute', async () => (await client.json('GET', disputes)).length > 0)
  for (const page of ['metrics', 'stats']) {
    answers.push(await (await fetch(`${running.debugUrl}/${page}`)).text())
  }
  const marker = `marker-${randomBytes(6).toString('hex')}`
  await client.call('POST', `/merchants/${merchant.id}/users`, { email: `${marker}@example.com` })
  await running.program.end()

  const texts = Buffer.from(`${answers.join('\n')}\n${running.program.output()}`)
  const written = await writtenBy(running)
  // Shows that the search works: the stored marker is found in the searched places.
  const holders = written.filter(([, bytes]) => bytes.includes(marker)).length
  assert.ok(holders >= 3, `only ${holders} places have what was stored last`)
  for (const [place, bytes] of [
    ['an answer or the log', texts] as const,
    ...written,
    ...filesIn(folderOf(running)),
  ]) {
    for (const number of canaries) assertAbsent(bytes, place, number)
    assert.doesNotMatch(bytes.toString('latin1'), new RegExp(`code\\W{1,4}${code}\\b`), place)
  }
})

function folderOf({ folder }: Running): string {
  return join(folder, 'payments')
}

/** Asserts that the bytes do not contain the card number, with any separator or in hex or base64. */
function assertAbsent(bytes: Buffer, place: string, number: string): void {
  const digits = number.replaceAll(' ', '')
  const spellings = [digits, ...['-', '+', '%20', '.', '\u00a0', ' '].map(gap => number.replaceAll(' ', gap))]
  const encoded = [
    Buffer.from(digits).toString('hex'),
    // The middle of the number in base64, for each of the three positions that the first digit can have.
    ...[0, 1, 2].map(shift =>
      Buffer.from(`${'\0'.repeat(shift)}${digits}`)
        .toString('base64')
        .slice(4, 20),
    ),
  ]
  for (const spelling of [...spellings, ...encoded]) {
    const at = bytes.indexOf(spelling)
    const around = bytes.subarray(Math.max(0, at - 60), at + 60).toString('latin1')
    assert.equal(at, -1, `${spelling} in ${place}: …${around}…`)
  }
}
