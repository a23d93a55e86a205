import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir, readFile, rename, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { runAdmin } from '../../services/payments/admin/run-admin.ts'
import { lockFolder } from '../../services/payments/storage/engine/pglite.ts'
import { newPgliteFolder } from '../support/pglite-folder.ts'
import {
  findPostgresProgram,
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../support/postgres-server.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  askAdmin,
  openShop,
  type PaymentsProcess,
  paymentsEnv,
  removeState,
  type Shop,
  startPaymentsProcess,
} from './payments-process.ts'

const missingDump = findPostgresProgram('pg_dump') === undefined ? missingProgram('pg_dump') : false

describe('the admin commands of payments', { skip: missingPostgres() || missingDump }, () => {
  let postgres: PostgresServer
  let url = ''
  let service: PaymentsProcess
  let shop: Shop
  before(async () => {
    postgres = await startPostgres()
    url = await postgres.createDatabase('payments')
    service = await startPaymentsProcess(url)
    shop = await openShop(url, service.url)
    await post('captures', { amount: 60_000 })
    await post('refunds', { amount: 10_000 })
    await post('voids', { amount: 5_000 })
  })
  after(async () => {
    await service?.kill()
    await postgres?.stop()
    await removeState()
  })

  const post = (what: string, json: object) => postTo(`/transactions/${shop.transactionId}/${what}`, json)

  async function postTo(path: string, json: object): Promise<void> {
    const headers = { authorization: shop.authorization, 'content-type': 'application/json' }
    const response = await fetch(service.url + path, { method: 'POST', headers, body: JSON.stringify(json) })
    assert.equal(response.status, 201, await response.text())
  }

  async function admin(expected: number, ...args: readonly string[]): Promise<string> {
    const { code, output } = await askAdmin(url, args)
    assert.equal(code, expected, output)
    return output
  }

  test('verify succeeds while the service runs', async () => {
    const output = await admin(0, 'verify')
    assert.match(output, /^merchants +1$/m)
    assert.match(output, /^lines +2$/m)
    // 60,000 less 10,000, and the fee of the capture: 25 and 1.35 %.
    assert.match(output, /^merchant +DKK +49165$/m)
    assert.match(output, /^fees +DKK +835$/m)
    assert.match(output, /Everything adds up/)
  })

  test('the service sends its mail and webhooks', async () => {
    const told: unknown[] = []
    const receiver = createServer((request, response) => {
      told.push(request.headers['webhook-signature'])
      response.end()
    })
    await new Promise<void>(resolve => {
      receiver.listen(0, '127.0.0.1', resolve)
    })
    const { port } = receiver.address() as AddressInfo
    const merchant = `/merchants/${shop.merchantId}`
    await postTo(`${merchant}/webhooks`, {
      url: `http://127.0.0.1:${port}/`,
      events: ['transaction.captured'],
    })
    await postTo(`${merchant}/users`, { email: 'joe@example.com' })
    await post('captures', { amount: 100 })
    const folder = join(paymentsEnv(url)['STATE_DIR'] ?? '', 'mail')
    await waitFor('the mail', async () => (await readdir(folder)).some(name => name.endsWith('.eml')))
    await waitFor('the webhook', () => /^v1,/.test(String(told[0])))
    receiver.close()
  })

  test('a dispute is raised, won and lost', async () => {
    const raise = ['dispute', 'raise', shop.transactionId, '--amount', '20000', '--due', '2030-01-31']
    const won = /dispute (\S+) is open/.exec(await admin(0, ...raise))?.[1] ?? ''
    assert.match(await admin(0, 'dispute', 'win', won), /is won/)
    const again = await admin(1, 'dispute', 'lose', won)
    assert.match(again, /already resolved/)
    const lost = /dispute (\S+) is open/.exec(await admin(0, ...raise))?.[1] ?? ''
    await admin(0, 'dispute', 'lose', lost)
    assert.match(
      await admin(1, 'dispute', 'raise', shop.merchantId, '--amount', '1'),
      /The transaction was not found/,
    )
    assert.match(await admin(1, 'dispute', 'win', 'nothing'), /The dispute was not found/)
    await admin(0, 'verify')
  })

  test('merchants are paid once a period, also if two commands run at once', async () => {
    const [first, second] = await Promise.all([
      admin(0, 'payout', '--period', 'a'),
      admin(0, 'payout', '--period', 'a'),
    ])
    // 49,165 and 74, less the lost dispute of 20,000 and the fees of two disputes.
    assert.match(`${first}${second}`, new RegExp(`^${shop.merchantId} 9239 DKK line \\S+\\n$`))
    assert.equal(await admin(0, 'payout', '--period', 'a'), '')
    assert.match(
      await admin(1, 'payout', '--period', 'a', '--merchant', shop.merchantId),
      /paid for a already/,
    )
    await post('captures', { amount: 1_000 })
    assert.match(await admin(0, 'payout', '--period', 'b'), /961 DKK/)
    const output = await admin(0, 'verify')
    assert.match(output, /^payouts +DKK +10200$/m)
  })

  test('a restored backup is verified, and a changed one is detected', async () => {
    const folder = temporaryFolder('tollway-dump')
    const dump = join(folder, 'payments.dump')
    const run = promisify(execFile)
    await run(findPostgresProgram('pg_dump') ?? '', ['--format=custom', `--file=${dump}`, url])
    const restored = await postgres.createDatabase('restored')
    await run(findPostgresProgram('pg_restore') ?? '', ['--exit-on-error', `--dbname=${restored}`, dump])
    const [original, copy] = [await admin(0, 'verify'), await askAdmin(restored, ['verify'])]
    assert.deepEqual(copy, { code: 0, output: original })
    await postgres.sql(
      `ALTER TABLE lines DISABLE TRIGGER ALL; ALTER TABLE ledger_postings DISABLE TRIGGER ALL;
       UPDATE lines SET balance = balance + 1 WHERE kind = 'refund';
       UPDATE ledger_postings SET amount = amount + 1 WHERE account = 'fees' AND entry_id IN
         (SELECT id FROM ledger_entries WHERE kind = 'capture' ORDER BY id LIMIT 1)`,
      'restored',
    )
    const { code, output } = await askAdmin(restored, ['verify'])
    assert.equal(code, 1, output)
    const stored = async (database: string) =>
      (await postgres.sql('SELECT findings FROM last_verification', database)).trim()
    assert.equal(await stored('payments'), '0')
    assert.equal(await stored('restored'), /(\d+) things do not/.exec(output)?.[1])
    assert.match(output, /sum to 1, not to 0/)
    assert.match(output, /line \S+ of merchant \S+: its balance is/)
    assert.match(output, /merchant \S+: its balance is \d+; its lines make it \d+/)
    assert.match(output, /\d+ things do not add up/)
    await postgres.sql('ALTER DATABASE restored SET default_transaction_read_only = on')
    const unstored = await askAdmin(restored, ['verify'])
    assert.equal(unstored.code, 1)
    const note = 'tollway payments: store the result for the console: '
    assert.ok(unstored.output.startsWith(`${output}${note}`), unstored.output)
    assert.match(unstored.output, /read-only transaction/)
  })

  test('wrong arguments are rejected with the reason', async () => {
    const table: readonly [readonly string[], RegExp][] = [
      [['verfy'], /unknown subcommand "verfy" \(did you mean "verify"\?\)/],
      [['verify', 'x'], /unexpected argument "x"/],
      [['payout', '--period', 'a b'], /--period a b/],
      [['dispute', 'raise', 'x'], /missing option --amount/],
      [['dispute', 'raise', 'x', '--amount', '1.5'], /--amount 1\.5/],
      [['dispute', 'raise', 'x', '--amount', '1', '--due', 'soon'], /--due soon/],
    ]
    for (const [args, expected] of table) assert.match(await admin(2, ...args), expected)
  })
})

describe('the admin commands of payments with the embedded database', () => {
  let folder = ''
  let env: Readonly<Record<string, string>> = {}
  before(async () => {
    folder = temporaryFolder('tollway-embedded')
    await rename(await newPgliteFolder(), join(folder, 'payments'))
    env = { ...paymentsEnv(''), DATABASE_URL: '', STATE_DIR: folder, PORT: '0' }
  })

  async function ask(
    ...args: readonly string[]
  ): Promise<{ readonly code: number; readonly output: string }> {
    let output = ''
    const hear = (text: string) => {
      output += text
    }
    return { code: await runAdmin(args, env, { print: hear, printError: hear }), output }
  }

  test('commands use the service that has the database open, and open it if there is none', async t => {
    const service = startProgram(process.execPath, [programs.payments], {
      env: { ...env, LOG_LEVEL: 'info' },
    })
    t.after(() => service.end('SIGKILL'))
    await service.said('msg="start service"', 60_000)
    const file = join(folder, 'payments', 'admin.json')
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    const { port, token } = JSON.parse(await readFile(file, 'utf8'))
    assert.ok(!service.output().includes(token))
    for (const authorization of ['', 'Bearer x', `Bearer ${token}x`]) {
      const headers = { authorization, 'content-type': 'application/json' }
      const asked = { method: 'POST', headers, body: '["verify"]' }
      assert.equal((await fetch(`http://127.0.0.1:${port}/commands`, asked)).status, 401)
    }
    const verified = await ask('verify')
    assert.equal(verified.code, 0, verified.output)
    assert.match(verified.output, /^merchants +0$(.*\n)*Everything adds up/m)
    assert.deepEqual(await ask('payout', '--period', 'a'), { code: 0, output: '' })
    const rejected = await ask('dispute', 'win', 'nothing')
    assert.equal(rejected.code, 1, rejected.output)
    assert.match(rejected.output, /^tollway payments: rejected: The dispute was not found/)
    await service.end('SIGKILL')
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    assert.deepEqual(await ask('verify'), verified)
    const unlock = lockFolder(join(folder, 'payments'))
    const held = startProgram(process.execPath, [programs.tollway, 'payments', 'verify'], { env })
    assert.equal(await held.exited(), 2)
    unlock()
    assert.match(
      held.output(),
      /in use by another process\n.*takes\nno commands: stop the service, run this again/s,
    )
  })
})
