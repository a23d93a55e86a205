import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { before, test } from 'node:test'
import fc from 'fast-check'
import { paymentsEndpoints } from '../endpoints/endpoints.ts'
import { type ApiUnderTest, basic, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

const runs = Number(process.env['FUZZED_REQUESTS'] ?? process.env['FC_RUNS'] ?? 1_000)
/** The number of requests that are sent at the same time. One run of the property sends one batch. */
const batch = 20

let api: ApiUnderTest
let shop: TestShop
let transactionId = ''
let webhookId = ''
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  transactionId = (await payAt(api, shop, { amount: 1_000_000_000n })).id
  const json = { url: 'https://example.com/' }
  const made = await api.call('POST', `/merchants/${shop.merchantId}/webhooks`, { key: shop.key, json })
  webhookId = (made.json as { webhook: { id: string } }).webhook.id
})

interface FuzzedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

const nasty = fc.constantFrom(
  '',
  ' ',
  '\u0000',
  '\n',
  '%',
  '%00',
  '%F0%28',
  '..',
  '../me',
  "'; --",
  '{{',
  '💳',
  '\ud800',
  'x'.repeat(300),
  ...'__proto__ constructor 0 -1 1e400 9007199254740993 NaN yes null 4100000000000001'.split(' '),
)

const text = fc.oneof(nasty, fc.string({ unit: 'binary', maxLength: 30 }))
const idPart = () =>
  fc.oneof(fc.constantFrom(shop.merchantId, shop.appId, transactionId), fc.uuid(), text.map(encodeLoosely))

const names = (
  'amount currency descriptor custom transactionId cardId email appId name test url events disabled website ' +
  'company bank iban country notes limit before after sort filter merchantId rejection status toString created id'
).split(' ')
const name = fc.oneof({ arbitrary: fc.constantFrom(...names), weight: 4 }, { arbitrary: text, weight: 1 })
const knownValue = () =>
  fc.constantFrom<unknown>(
    1,
    100,
    'DKK',
    'EUR',
    true,
    transactionId,
    shop.merchantId,
    shop.appId,
    'a@example.com',
  )
const jsonValue = () =>
  fc.oneof(
    { arbitrary: knownValue(), weight: 4 },
    { arbitrary: fc.oneof(text, fc.double(), fc.integer(), fc.jsonValue({ maxDepth: 4 })), weight: 2 },
  )
const record = () => fc.array(fc.tuple(name, jsonValue()), { maxLength: 6 })

/** Generates the text of a JSON object. Not with JSON.stringify, because a name may occur twice. */
const jsonText = () =>
  record().map(fields => {
    const members = fields.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value) ?? 'null'}`)
    return `{${members.join(',')}}`
  })

const bracketed = fc
  .tuple(name, fc.array(name, { maxLength: 3 }))
  .map(([first, rest]) => [first, ...rest.map(part => `[${part}]`)].join(''))
const formText = () =>
  fc
    .array(fc.tuple(bracketed, fc.oneof(text, knownValue().map(String)), fc.boolean()), { maxLength: 6 })
    .map(fields =>
      fields
        .map(([key, value, encoded]) =>
          encoded ? `${safeEncode(key)}=${safeEncode(value)}` : `${key}=${value}`,
        )
        .join('&'),
    )

function safeEncode(value: string): string {
  return encodeURIComponent(value.toWellFormed())
}

function encodeLoosely(value: string): string {
  return encodeURI(value.toWellFormed()).replace(/[?#]/g, '')
}

const mutated = (bytes: fc.Arbitrary<string>) =>
  fc.tuple(bytes, oneIn(4, fc.tuple(fc.nat(), fc.nat(255)))).map(([content, change]) => {
    const buffer = Buffer.from(content)
    if (change !== null && buffer.length > 0) buffer[change[0] % buffer.length] = change[1]
    return buffer
  })

/** Generates null, or in one of `count` cases a value. */
function oneIn<T>(count: number, value: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ arbitrary: fc.constant(null), weight: count - 1 }, { arbitrary: value, weight: 1 })
}

const header = fc.string({ maxLength: 40 }).map(value => value.replace(/[^\x20-\x7e]/g, ''))

function fuzzedRequest(): fc.Arbitrary<FuzzedRequest> {
  const paths = paymentsEndpoints.map(({ path }) => path)
  const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'QUERY')
  const target = fc.oneof(
    {
      arbitrary: fc.constantFrom(...paymentsEndpoints).map(({ method, path }) => [method, path] as const),
      weight: 8,
    },
    { arbitrary: fc.tuple(method, fc.constantFrom(...paths, '/', '/nothing', '/merchants//x')), weight: 1 },
  )
  return target.chain(([verb, path]) => {
    const placeholders = path.split(/(\{\w+\})/)
    const parts = placeholders.map(part => {
      if (!part.startsWith('{')) return fc.constant(part)
      // Does not delete the known webhook, which later requests need.
      return verb === 'DELETE' && part === '{webhookId}' ? idPart() : knownIdOr(part)
    })
    const query = fc.option(fc.oneof(fc.constant('limit=5'), formText().map(encodeLoosely)))
    const content = fc.oneof(
      fc.tuple(fc.constant('application/json'), mutated(jsonText())),
      fc.tuple(fc.constant('application/x-www-form-urlencoded'), mutated(formText())),
      fc.tuple(header, mutated(jsonText())),
    )
    return fc
      .tuple(fc.tuple(...parts), query, content, oneIn(8, header), oneIn(4, header))
      .map(([filled, search, [type, body], accept, key]) => ({
        method: verb,
        path: filled.join('') + (search === null ? '' : `?${search}`),
        headers: {
          authorization: basic(shop.key),
          'content-type': type,
          ...(accept === null ? {} : { accept }),
          ...(key === null ? {} : { 'idempotency-key': key }),
        },
        body: verb === 'GET' || verb === 'HEAD' ? Buffer.alloc(0) : body,
      }))
  })
}

/** Generates mostly the id of an existing record, so that most requests are not rejected as `not_found`. */
function knownIdOr(placeholder: string): fc.Arbitrary<string> {
  const { merchantId, appId } = shop
  const known = {
    '{merchantId}': merchantId,
    '{appId}': appId,
    '{transactionId}': transactionId,
    '{webhookId}': webhookId,
  }
  const id = Object.entries(known).find(([name]) => name === placeholder)?.[1]
  if (id === undefined) return idPart()
  return fc.oneof({ arbitrary: fc.constant(id), weight: 6 }, { arbitrary: idPart(), weight: 1 })
}

test(`no request of ${runs} causes an error of the server`, { timeout: 86_400_000 }, async () => {
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(fc.array(fuzzedRequest(), { minLength: batch, maxLength: batch }), async requests => {
      const answers = await Promise.all(requests.map(send))
      for (const [index, { status, body }] of answers.entries()) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        assert.ok(status < 500, `${status} ${body} for ${describe(requests[index])}`)
      }
    }),
    { numRuns: Math.ceil(runs / batch), ...(runs > 1_000 ? {} : { seed: 20_260_710 }), endOnFailure: true },
  )
  // Shows that the requests have different results, if there are enough of them.
  const expected = runs < 1_000 ? [] : [200, 201, 400, 404]
  for (const status of expected) assert.ok(statuses.has(status), `no ${status} among them`)
})

function describe(request: FuzzedRequest | undefined): string {
  return JSON.stringify({ ...request, body: request?.body.toString('latin1') })
}

function send({ method, path, headers, body }: FuzzedRequest) {
  return new Promise<{ readonly status: number; readonly body: string }>((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: api.port,
      method,
      path,
      headers: { ...headers, 'content-length': body.length },
    }
    const request = httpRequest(options, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
    })
    request.on('error', reject)
    request.end(body)
  })
}
