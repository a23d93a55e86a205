import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { before, test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { maxRequestBytes } from '../read-body.ts'
import {
  type ApiUnderTest,
  merchantInput,
  openShop,
  payAt,
  serveApi,
  sharedApi,
  type TestRequest,
  type TestResponse,
  type TestShop,
} from './api-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
/** The values of the placeholders in the tables, such as `{merchantId}`. */
let names: Readonly<Record<string, string>>

before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  const [fresh, taken, partly] = [await payAt(api, shop), await payAt(api, shop), await payAt(api, shop)]
  const capture = (id: string, amount: number) =>
    api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount } })
  await capture(taken.id, 1_000)
  await capture(partly.id, 300)
  const other = await openShop(api)
  names = {
    app: shop.appId,
    merchant: shop.merchantId,
    fresh: fresh.id,
    taken: taken.id,
    partly: partly.id,
    foreign: (await payAt(api, other)).id,
    otherApp: other.appId,
    otherMerchant: other.merchantId,
    declinesRecurring: (await payAt(api, shop, { number: '4100 0000 0200 7004' })).id,
    charges: `/merchants/${shop.merchantId}/transactions`,
    five: '"currency":"DKK","amount":5',
    shop: 'currency=EUR&email=a@example.com&website=https://example.com&descriptor=A',
    required: `${almost} required`,
    almost,
    nobody: '0197f3a2-5c00-7a10-8b3c-5d2e9f014aff',
  }
})

const almost = 'email required, website required, descriptor required, company required, currency'

/** Each row is `POST /path json {…} → 400 amount too_large`: the status, then wrong fields or the code. */
async function runTable(table: string): Promise<void> {
  for (const line of table.trim().split('\n')) {
    const row = line.trim().replace(/\{(\w+)\}/g, (whole, name: string) => names[name] ?? whole)
    const [, method = '', path = '', kind = '', content = '', expected = ''] =
      /^(\w+) (\S+) (?:(json|form|body) (.*) )?→ (.*)$/.exec(row) ?? assert.fail(`no row: ${row}`)
    const response = await api.call(method, path, { key: shop.key, ...requestOf(kind, content) })
    assert.equal(`${response.status} ${summary(response)}`.trim(), expected, `${row}\n${response.text}`)
  }
}

function requestOf(kind: string, content: string): TestRequest {
  if (kind === 'form') return { form: content }
  return kind === '' ? {} : { body: content, headers: { 'content-type': 'application/json' } }
}

function summary({ json, status }: TestResponse): string {
  if (status < 400) return ''
  if (!Array.isArray(json)) {
    const { code, error } = json as { code: string; error?: { code: number } }
    return error === undefined ? code : `${code} ${error.code}`
  }
  return json.map(({ field, code }) => [field, code].filter(part => part !== '').join(' ')).join(', ')
}

test('reads and lists get their status and code', () =>
  runTable(`
    GET /me → 200
    GET /me/ → 200
    HEAD /me → 200
    GET /me?anything=1 → 200
    GET /merchants/{merchant} → 200
    GET /merchants/{nobody} → 404 not_found
    GET /merchants/none → 404 not_found
    GET /merchants/%00 → 404 not_found
    GET /merchants/%zz → 404 not_found
    GET /identities/{app}/merchants?limit=1 → 200
    GET /identities/{otherApp}/merchants?limit=1 → 404 not_found
    GET /identities/{app}/merchants → 400 limit required
    GET /identities/{app}/merchants?limit=0 → 400 limit too_small
    GET /identities/{app}/merchants?limit=101 → 400 limit too_large
    GET /identities/{app}/merchants?limit=1.5 → 400 limit type
    GET /identities/{app}/merchants?limit=1&limit=2 → 400 malformed_body
    GET /identities/{app}/merchants?limit=1&rejection=x → 400 rejection unknown
    GET /identities/{app}/merchants?limit=1&rejection[status]=200 → 400 rejection unknown
    GET /identities/{app}/merchants?limit=1&filter[test]=yes → 200
    GET /identities/{app}/merchants?limit=1&filter[test]=maybe → 400 filter.test type
    GET /identities/{app}/merchants?limit=1&filter[iban]=1 → 400 filter.iban unknown
    GET /identities/{app}/merchants?limit=1&sort[created]=asc → 200
    GET /identities/{app}/merchants?limit=1&sort[created]=up → 400 sort.created format
    GET /identities/{app}/merchants?limit=1&before={nobody} → 400 before mismatch
    GET /identities/{app}/merchants?limit=1&after=x → 400 after format
    GET /identities/{app}/merchants?limit=%zz → 400 malformed_body
    GET /merchants/{merchant}/transactions?limit=100 → 200
    GET /merchants/{merchant}/lines?limit=100&filter[transactionId]={taken} → 200
    GET /merchants/{merchant}/users?limit=100 → 200
    GET /merchants/{merchant}/apps?limit=100 → 200
    GET /merchants/{otherMerchant}/apps?limit=100 → 404 not_found
    GET /transactions/{fresh} → 200
    GET /transactions/{foreign} → 404 not_found
    GET /frauds?limit=10 → 400 filter.merchantId required
    GET /frauds?limit=10&filter[merchantId]={merchant} → 200
    GET /frauds?limit=10&filter[merchantId]={merchant}&filter[transactionId]={taken} → 200
    GET /frauds?limit=10&filter[merchantId]={otherMerchant} → 404 not_found
    GET /frauds/{nobody} → 404 not_found
    GET /disputes?limit=10&filter[merchantId]={merchant}&filter[status]=open → 200
    GET /disputes?limit=10&filter[merchantId]={merchant}&filter[status]=ajar → 400 filter.status format
    GET /cards/{nobody} → 404 not_found
    GET /lines/{nobody} → 404 not_found
    GET /nothing → 404 not_found
    PATCH /me → 405 method_not_allowed
    QUERY /me → 405 method_not_allowed
    QUERY /nothing → 404 not_found
    DELETE /merchants/{merchant} → 405 method_not_allowed
  `))

test('creations and changes get their status and code', () =>
  runTable(`
    POST /merchants → 400 {required}
    POST /merchants json {"currency":"JPY"} → 400 {almost} unsupported
    POST /merchants form {shop}&company[country]=DK&test=yes → 201
    POST /merchants form currency=EUR&currency=DKK → 400 malformed_body
    POST /merchants json {"currency":"EUR","currency":"DKK"} → 400 malformed_body
    POST /merchants json {"currency":"EUR","\\u0063urrency":"DKK"} → 400 malformed_body
    POST /merchants json {"a":"\\" → 400 malformed_body
    POST /merchants json [] → 400 type
    POST /merchants json "x" → 400 type
    POST /merchants json {"id":"x"} → 400 {required}, id unknown
    PUT /merchants/{merchant} json {"name":"Coffee"} → 200
    PUT /merchants/{merchant} json {"currency":"EUR"} → 400 currency immutable
    PUT /merchants/{merchant} json {"balance":1} → 400 balance unknown
    PUT /merchants/{otherMerchant} json {"name":"Coffee"} → 404 not_found
    POST /merchants/{merchant}/users json {"email":"joe"} → 400 email format
    POST /merchants/{merchant}/users form email=joe%40example.com → 201
    POST /merchants/{merchant}/users form email=joe%40example.com → 201
    DELETE /merchants/{merchant}/users/{nobody} → 404 not_found
    DELETE /merchants/{merchant}/users/none → 404 not_found
    POST /merchants/{merchant}/apps json {"appId":"{nobody}"} → 400 appId mismatch
    POST /merchants/{merchant}/apps json {"appId":"{otherApp}"} → 201
    DELETE /merchants/{merchant}/apps/{otherApp} → 204
    DELETE /merchants/{merchant}/apps/{otherApp} → 404 not_found
  `))

test('operations of transactions get their status and code', () =>
  runTable(`
    POST /transactions/{fresh}/captures json {} → 400 amount required
    POST /transactions/{fresh}/captures json {"amount":1001} → 400 amount too_large
    POST /transactions/{fresh}/captures json {"amount":0} → 400 amount too_small
    POST /transactions/{fresh}/captures json {"amount":-0} → 400 amount too_small
    POST /transactions/{fresh}/captures json {"amount":1.5} → 400 amount type
    POST /transactions/{fresh}/captures json {"amount":"1"} → 400 amount type
    POST /transactions/{fresh}/captures json {"amount":1e400} → 400 amount type
    POST /transactions/{fresh}/captures json {"amount":9007199254740993} → 400 amount too_large
    POST /transactions/{fresh}/captures form amount=1%20 → 400 amount type
    POST /transactions/{fresh}/captures json {"amount":1,"currency":"EUR"} → 400 currency mismatch
    POST /transactions/{fresh}/captures json {"amount":1,"merchantId":"x"} → 400 merchantId unknown
    POST /transactions/{fresh}/refunds json {"amount":1} → 400 amount too_large
    POST /transactions/{taken}/captures json {"amount":1} → 400 amount too_large
    POST /transactions/{taken}/voids json {"amount":1} → 400 amount too_large
    POST /transactions/{partly}/refunds form amount=300&descriptor=Sorry → 201
    POST /transactions/{partly}/refunds json {"amount":1} → 400 amount too_large
    POST /transactions/{partly}/voids json {"amount":700,"currency":"DKK"} → 201
    POST /transactions/{foreign}/captures json {"amount":1} → 404 not_found
    POST /transactions/none/voids json {"amount":1} → 404 not_found
    POST {charges} json {{five}} → 400 transactionId required
    POST {charges} json {"transactionId":"{fresh}","cardId":false,{five}} → 201
    POST {charges} form transactionId={fresh}&currency=DKK&amount=5&custom[order]=7 → 201
    POST {charges} json {"transactionId":"{foreign}",{five}} → 400 transactionId mismatch
    POST {charges} json {"transactionId":"{nobody}",{five}} → 400 transactionId mismatch
    POST {charges} json {"cardId":"{nobody}",{five}} → 400 cardId mismatch
    POST {charges} json {"transactionId":"{fresh}","currency":"CHF","amount":5} → 400 processing_error 1
    POST {charges} json {"transactionId":"{declinesRecurring}",{five}} → 400 processing_error 7
    POST /merchants/{otherMerchant}/transactions json {"transactionId":"{fresh}",{five}} → 404 not_found
    POST /merchants/{merchant}/cards json {"transactionId":"{fresh}","notes":"Jane"} → 201
    POST /merchants/{merchant}/cards json {"transactionId":"{foreign}"} → 400 transactionId mismatch
  `))

test('a list has one line for each element, and an empty list none', async () => {
  const { text } = await api.call('GET', `/merchants/${shop.merchantId}/transactions?limit=3`, shop)
  const lines = text.split('\n')
  assert.deepEqual([lines.length, lines[0], lines[4], lines[5]], [6, '[', ']', ''])
  assert.ok(lines[1]?.endsWith('},') && lines[3]?.endsWith('}'))
  const empty = await api.call('GET', `/frauds?limit=1&filter[merchantId]=${shop.merchantId}`, shop)
  assert.equal(empty.text, '[\n]\n')
})

test('an update is answered with 204 or with the merchant, as Accept and X-Client ask', async () => {
  const update = async (headers: Record<string, string>) => {
    const raw = await rawCall(
      ['PUT', `/merchants/${shop.merchantId}`],
      { authorization: `Basic ${btoa(`:${shop.key}`)}`, 'content-type': 'application/json', ...headers },
      '{"name":"Jane"}',
    )
    return raw.split(' ')[1]
  }
  assert.equal(await update({}), '204')
  assert.equal(await update({ accept: 'application/json' }), '200')
  assert.equal(await update({ accept: '*/*' }), '200')
  assert.equal(await update({ accept: 'application/json', 'x-client': 'Node 2.0.2' }), '204')
  assert.equal(await update({ accept: 'text/html' }), '406')
})

test('the content type is matched with its parameters and in any case', async () => {
  const cases = `
    application/json;charset=utf-8 → 201
    APPLICATION/JSON ; charset="UTF-8" → 201
    application/json;charset=utf-16 → 415
    text/plain → 415
    application/jsonp → 415
    multipart/form-data; boundary=x → 415
  `
  for (const row of cases.trim().split('\n')) {
    const [type = '', status] = row.trim().split(' → ')
    const body = JSON.stringify(merchantInput)
    const { text, ...response } = await api.call('POST', '/merchants', {
      key: shop.key,
      body,
      headers: { 'content-type': type },
    })
    assert.equal(String(response.status), status, `${row} ${text}`)
  }
  const spaced = { 'content-type': 'application/json\t;charset=utf-8', 'content-length': '2' }
  const authorization = `Basic ${btoa(`:${shop.key}`)}`
  assert.match(
    await rawCall(['POST', '/merchants'], { ...spaced, authorization }, '{}'),
    /^HTTP\/1.1 4(00|15) /,
  )
  const broken = { key: shop.key, body: Buffer.from('{"name":"\xff"}', 'latin1') }
  const answer = await api.call('POST', '/merchants', {
    ...broken,
    headers: { 'content-type': 'application/json' },
  })
  assert.deepEqual([answer.status, summary(answer)], [400, 'malformed_body'])
})

test('the length and the depth of bodies are limited', async () => {
  const long = await api.call('POST', '/merchants', {
    key: shop.key,
    json: { name: 'x'.repeat(maxRequestBytes) },
  })
  assert.deepEqual([long.status, summary(long)], [413, 'body_too_large'])
  const deep = await api.call('POST', '/merchants', {
    key: shop.key,
    body: `{"custom":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    headers: { 'content-type': 'application/json' },
  })
  assert.deepEqual([deep.status, summary(deep)], [400, 'malformed_body'])
})

test('a request keeps a harmless id, and gets a new one otherwise', async () => {
  const idOf = async (id: string) =>
    (await api.call('GET', '/me', { key: shop.key, headers: { 'x-request-id': id } })).headers.get(
      'x-request-id',
    )
  assert.equal(await idOf('order-17.a'), 'order-17.a')
  for (const id of ['with space', 'x'.repeat(200), '4100000000000001', '4100-0000-0000-0001']) {
    assert.match((await idOf(id)) ?? '', /^[0-9a-f-]{36}$/, id)
  }
})

test('OPTIONS lists the methods of a path, and no other origin is allowed', async () => {
  const options = await api.call('OPTIONS', `/merchants/${shop.merchantId}`, {
    headers: { origin: 'https://evil.example' },
  })
  assert.equal(options.status, 204)
  assert.equal(options.headers.get('allow'), 'OPTIONS, GET, HEAD, PUT')
  assert.deepEqual(
    [...options.headers.keys()].filter(name => name.startsWith('access-control')),
    [],
  )
})

test('the document and the health pages need no key', async () => {
  assert.equal(((await api.call('GET', '/openapi.json')).json as { openapi: string }).openapi, '3.1.0')
  assert.equal((await api.call('GET', '/healthz')).status, 200)
  assert.equal((await api.call('GET', '/readyz')).status, 200)
})

test('bytes that are not HTTP get 400, and slow requests are closed with 408', async t => {
  assert.match(await rawBytes('NONSENSE\r\n\r\n'), /^HTTP\/1.1 400 .*"code":"malformed_body"/s)
  const headers = `x: ${'y'.repeat(20_000)}\r\n`
  assert.match(
    await rawBytes(`GET /me HTTP/1.1\r\nhost: x\r\n${headers}\r\n`),
    /^HTTP\/1.1 431 .*x-request-id/s,
  )
  const hasty = await serveApi(api, {
    timeouts: { requestMs: 1_500, headersMs: 1_000, checkIntervalMs: 100 },
  })
  t.after(hasty.close)
  assert.match(await rawBytes('GET /me HTTP/1.1\r\nhost: x\r\nx-slow: ', hasty), /^HTTP\/1.1 408 /)
  const head =
    'POST /apps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{'
  assert.match(await rawBytes(head, hasty), /^HTTP\/1.1 408 /)
})

async function rawCall(
  [method, path]: readonly [string, string],
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<string> {
  const fields = { host: 'x', connection: 'close', 'content-length': String(body.length), ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return rawBytes(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
}

/** Sends bytes to the API, and resolves with all bytes that it answers until the connection is closed. */
async function rawBytes(bytes: string, { port } = api): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.setEncoding('utf8').on('data', chunk => {
    answer += chunk
  })
  await once(socket, 'connect')
  socket.write(bytes)
  await waitFor('the end of the connection', () => socket.readableEnded || socket.destroyed)
  socket.destroy()
  return answer
}
