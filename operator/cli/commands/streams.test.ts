import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import type { RequestOnPage, StreamsPage } from '../../broker-queries/read-pages.ts'
import { addRates, describeChanges, mergeRows } from '../../broker-queries/stream-rows.ts'
import { writeStatusReport } from '../../environments/host/status-file.ts'
import { runTollway } from '../tollway-program.ts'
import { listTable, watchOnScreen } from '../watch-streams.ts'

const request: RequestOnPage = {
  key: 'k1',
  streamId: 'kiosk-7',
  requestId: 'r1',
  targetObjectId: 'claire',
  sourceServiceId: 'a2f',
  route: 'shop/kiosk',
  ageMs: 1_000,
  ended: false,
  producer: null,
  messages: null,
  bytes: null,
  consumers: [],
}
const produced = { ...request, producer: '10.0.0.1:40000', messages: 100, bytes: 50_000 }
const consumer = { peer: '10.0.0.2:40000', messagesBehind: 3, bytesBehind: 4_000 }

const page = (...streams: readonly RequestOnPage[]): StreamsPage => ({
  waitingPulls: 0,
  total: streams.length,
  streams,
})

interface FakeBroker {
  readonly address: string
  /** The method and path of each call, in order. */
  readonly calls: string[]
  /** The `authorization` header of each call, in order. */
  readonly tokens: (string | undefined)[]
}

/** Serves this answer on every path; a number is a status, and the body has the reason. */
async function serve(t: TestContext, answer: object | number): Promise<FakeBroker> {
  const calls: string[] = []
  const tokens: (string | undefined)[] = []
  const server = createServer((call, response) => {
    calls.push(`${call.method} ${call.url}`)
    tokens.push(call.headers.authorization)
    if (typeof answer === 'number') response.writeHead(answer).end('it is broken\nand more')
    else response.end(JSON.stringify(answer))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, tokens }
}

const tollway = (...args: readonly string[]) =>
  runCaptured(output => runTollway(['streams', ...args], output))

const at = (...brokers: readonly FakeBroker[]) => brokers.flatMap(({ address }) => ['--address', address])
const lines = (table: string) => table.split('\n').map(line => line.split(/ {2,}/).join(' | '))

test('a request on several brokers is one row', async t => {
  const first = await serve(t, page({ ...produced, consumers: [consumer] }))
  const second = await serve(
    t,
    page({ ...request, ageMs: 900, consumers: [consumer, { ...consumer, messagesBehind: 9 }] }),
  )
  const { code, out } = await tollway('list', ...at(first, second))
  assert.equal(code, 0)
  assert.deepEqual(lines(out).slice(0, 2), [
    'STREAM | REQUEST | OBJECT | ROUTE | STATE | PRODUCERS | CONSUMERS | MESSAGES | BYTES | BEHIND | AGE',
    'kiosk-7 | r1 | claire | shop/kiosk | running | 1 | 3 | 100 | 48.8 KiB | 9 (3.9 KiB) | 1.0s',
  ])
})

test('two runs of the same ids are two rows, and the ended one is left out', async t => {
  const broker = await serve(t, page({ ...produced, key: 'k0', ended: true, route: '' }, produced))
  const running = JSON.parse((await tollway('list', '-o', 'json', ...at(broker))).out)
  assert.deepEqual(
    running.requests.map(({ key, state }: Record<string, string>) => [key, state]),
    [['k1', 'running']],
  )
  const all = (await tollway('list', '--all', ...at(broker))).out
  assert.match(all, /default +ended.*\n.*shop\/kiosk +running/)
})

test('requests of brokers that send no key are matched by their ids', () => {
  const { key: _, ...without } = request
  const brokers = ['a', 'b'].map(address => ({ address, page: page(without) }))
  assert.equal(mergeRows({ brokers }).length, 1)
})

test('a broker that fails is reported, and the others are shown', async t => {
  const good = await serve(t, page(produced))
  const bad = await serve(t, 503)
  const one = await tollway('list', ...at(good, bad))
  assert.equal(one.code, 1)
  assert.match(one.out, /kiosk-7/)
  assert.equal(one.err, `${bad.address}: answers 503: it is broken\n`)
  assert.equal((await tollway('list', ...at(bad))).code, 2)
  const other = await serve(t, { resources: [] })
  assert.match(
    (await tollway('list', ...at(other))).err,
    /is not the debug server or the admin API of a broker/,
  )
})

test('requests that a page leaves out are reported', async t => {
  const broker = await serve(t, { ...page(produced), total: 1234, waitingPulls: 2 })
  const { out, err } = await tollway('list', ...at(broker))
  assert.equal(err, `${broker.address}: lists only 1 of its requests\n`)
  assert.match(out, /2 pulls wait for a request/)
})

test('without an address the command asks the brokers of the operator on this machine', async t => {
  const stateDir = temporaryFolder('streams')
  const advice = 'start one with: tollway run -f FOLDER, or name a broker with --address'
  assert.deepEqual(await tollway('list', '--state-dir', stateDir), {
    code: 2,
    out: '',
    err: `tollway streams: no operator runs with the state in ${stateDir}; ${advice}\n`,
  })
  const broker = await serve(t, page(produced))
  const replica = (name: string, addresses: Record<string, string>) => ({
    name,
    uid: name,
    ready: true,
    reason: '',
    restarts: 0,
    addresses,
  })
  const report = (...replicas: readonly ReturnType<typeof replica>[]) =>
    writeStatusReport(stateDir, {
      pid: process.pid,
      updatedAt: '',
      folder: '',
      addresses: {},
      resources: [],
      problems: [],
      replicas,
    })
  report(
    replica('ratelimit-0', { debug: 'http://127.0.0.1:1' }),
    replica('broker-0', { debug: broker.address }),
  )
  const found = await tollway('list', '--state-dir', stateDir)
  assert.deepEqual([found.code, found.err], [0, ''])
  assert.match(found.out, /kiosk-7/)
  report(replica('ratelimit-0', {}))
  assert.match((await tollway('list', '--state-dir', stateDir)).err, /runs no broker/)
})

test('the path of an interruption contains ids of every kind unchanged', async t => {
  const broker = await serve(t, { interrupted: 1 })
  const place = at(broker)
  const proxied = { ...broker, address: `${broker.address}/a/proxy/` }
  assert.equal((await tollway('interrupt', 'a/b%2F', '..', ...place)).code, 0)
  assert.equal((await tollway('interrupt', '😀', ...place)).out, '1 running request was interrupted\n')
  await tollway('interrupt', 's', ...at(proxied))
  assert.deepEqual(broker.calls, [
    'DELETE /streams/a%2Fb%252F/requests/..',
    'DELETE /streams/%F0%9F%98%80',
    'DELETE /a/proxy/streams/s',
  ])
})

test('the exit code of an interruption is 0 if it ended any, 1 for none, 2 if all brokers fail', async t => {
  const none = await serve(t, { interrupted: 0 })
  const two = await serve(t, { interrupted: 2 })
  const bad = await serve(t, 503)
  const code = async (...brokers: readonly FakeBroker[]) =>
    (await tollway('interrupt', 's', ...at(...brokers))).code
  assert.deepEqual(
    [await code(none), await code(none, two), await code(two, bad), await code(bad)],
    [1, 0, 1, 2],
  )
})

test('an interruption of a request that has not begun succeeds with a message', async t => {
  const none = await serve(t, { interrupted: 0 })
  const { code, out } = await tollway('interrupt', 's', 'r1', ...at(none))
  const consequence = 'the request "r1" has not begun, and its pushes are rejected for a minute'
  assert.deepEqual([code, out], [0, `0 running requests were interrupted; ${consequence}\n`])
  assert.equal((await tollway('interrupt', 's', 'r1', ...at(none, await serve(t, 503)))).code, 1)
})

test('the token of a file is sent, and never printed', async t => {
  const broker = await serve(t, 401)
  const file = join(temporaryFolder('token'), 'token')
  writeFileSync(file, '# for people\n  secret-of-the-test \nanother\n')
  const { code, err } = await tollway('list', ...at(broker), '--token-file', file)
  assert.equal(code, 2)
  assert.deepEqual(broker.tokens, ['Bearer secret-of-the-test'])
  assert.ok(!err.includes('secret-of-the-test'))
  writeFileSync(file, '\n')
  assert.match((await tollway('list', ...at(broker), '--token-file', file)).err, /the file has no token/)
})

for (const [args, message] of [
  [[], /missing subcommand: list, watch or interrupt/],
  [['stop'], /unknown subcommand "stop": must be list, watch or interrupt/],
  [['list', '--address', 'localhost:6072'], /--address localhost:6072: must be http:\/\/HOST:PORT or https/],
  [['list', '--token-file', 'x'], /--token-file requires --address/],
  [
    ['list', '--address', 'http://a:1', '--token-file', '/no/file'],
    /--token-file \/no\/file: no such file\n$/,
  ],
  [['list', '--address', 'http://a:1', '--ca', '/no/file'], /--ca \/no\/file: no such file\n$/],
  [['list', '--address', 'https://a:1', '--key', 'x'], /--cert and --key must be given together/],
  [['list', '--address', 'https://user:pass@a:1'], /must be http/],
  [['list', 'kiosk'], /kiosk/],
  [['list', '-o', 'csv'], /--output csv: must be one of/],
  [['watch', '--every', '0.01'], /--every 0.01: must be a number of seconds from 0.1/],
  [['interrupt'], /missing argument STREAM/],
  [['interrupt', ''], /missing argument STREAM/],
  [['interrupt', 'a', 'b', 'c'], /unexpected argument "c"/],
] as const) {
  test(`tollway streams ${args.join(' ')} is rejected`, async () => {
    const { code, err } = await tollway(...args)
    assert.equal(code, 2)
    assert.match(err, message)
  })
}

test('rates are the difference between two pages by the time between them', () => {
  const look = (atMs: number, messages: number, bytes: number) => ({
    atMs,
    brokers: [{ address: 'a', page: page({ ...produced, messages, bytes }) }],
  })
  const rate = (...looks: Parameters<typeof addRates>) => addRates(...looks)[0]?.perSecond
  assert.deepEqual(rate(undefined, look(0, 10, 100)), { messages: undefined, bytes: undefined })
  assert.deepEqual(rate(look(0, 10, 100), look(500, 25, 1_100)), { messages: 30, bytes: 2_000 })
  const disconnected = { atMs: 1_000, brokers: [{ address: 'a', page: page(request) }] }
  assert.deepEqual(rate(look(0, 10, 100), disconnected), { messages: undefined, bytes: undefined })
})

test('a change of a request is one line', () => {
  const rows = (...requests: readonly RequestOnPage[]) =>
    mergeRows({ brokers: [{ address: 'a', page: page(...requests) }] })
  const name = 'stream "kiosk-7" request "r1" object "claire":'
  const ended = { ...request, ended: true }
  const completed = { ...ended, end: { how: 'completed' } }
  const lost = { ...ended, end: { how: 'lost', code: 'ERROR', message: 'the producer is gone' } }
  const cases = [
    [rows(), rows(produced), [`${name} running, route shop/kiosk, producers 1, consumers 0`]],
    [rows(produced), rows({ ...produced, consumers: [consumer] }), [`${name} consumers 0 -> 1`]],
    [rows(produced), rows({ ...produced, messages: 999 }), []],
    [rows(produced), rows(ended), [`${name} ended, producers 1 -> 0`]],
    [rows(produced), rows(completed), [`${name} ended completed, producers 1 -> 0`]],
    [rows(request), rows(lost), [`${name} ended lost: ERROR the producer is gone`]],
    [rows(), rows(completed), [`${name} ended completed, route shop/kiosk`]],
    [undefined, rows(ended), []],
    [undefined, rows(request), [`${name} running, route shop/kiosk, producers 0, consumers 0`]],
    [rows(ended), rows(), []],
    [rows(produced), rows(), [`${name} gone`]],
  ] as const
  for (const [before, now, lines] of cases) assert.deepEqual(describeChanges(before, now), lines)
})

test('the table fits the terminal', async () => {
  const many = Array.from({ length: 30 }, (_, index) => ({ ...produced, key: `k${index}` }))
  const stop = new AbortController()
  let shown = ''
  await watchOnScreen(
    {
      read: async () => ({ atMs: 0, brokers: [{ address: 'a', page: page(...many) }] }),
      everyMs: 1,
      all: false,
      signal: stop.signal,
      print(text) {
        shown ||= text
        stop.abort()
      },
    },
    () => ({ rows: 10, columns: 40 }),
  )
  const rows = shown.replace('\u{1b}[H\u{1b}[J', '').trimEnd().split('\n')
  assert.equal(rows.length, 9)
  assert.equal(rows.at(-1), '… 23 more')
  for (const row of rows) assert.ok(row.length <= 40, row)
})

test('the list prints sizes and ages in short form', () => {
  const row = (bytes: number, ageMs: number) =>
    listTable(mergeRows({ brokers: [{ address: 'a', page: page({ ...produced, bytes, ageMs }) }] }))
  for (const [bytes, size] of [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [4_194_304, '4.0 MiB'],
    [2 ** 52, '4096.0 TiB'],
  ] as const)
    assert.match(row(bytes, 0), new RegExp(`  ${size}  `))
  for (const [ageMs, age] of [
    [-5, '0.0s'],
    [400, '0.4s'],
    [42_000, '42s'],
    [187_000, '3m07s'],
    [93_900_000, '26h05m'],
  ] as const)
    assert.match(row(0, ageMs), new RegExp(`  ${age}\n$`))
})
