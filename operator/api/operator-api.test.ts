import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import Value from 'typebox/value'
import { waitFor } from '../../test/support/wait-for.ts'
import { QueryError } from '../pods/query-error.ts'
import { serveApi } from '../testing/serve-api.ts'
import type { CallerAuthentication, RightScope } from './access.ts'
import { type ApiEndpoint, apiEndpoints } from './endpoints.ts'
import { ApiError } from './errors.ts'
import * as examples from './examples.ts'
import { errorAnswer, type RightList, type TryAnswer } from './shapes.ts'

const alice = '/counters?domain=checkout&descriptor=user=alice'
const entries = [{ key: 'user', value: 'alice' }]

/** A call of each endpoint that answers with JSON. */
const calls: Readonly<Record<string, readonly [path: string, body?: unknown]>> = {
  openapi: ['/openapi.json'],
  domains: ['/domains'],
  rules: ['/domains/checkout/rules'],
  counter: [alice],
  reset: ['/counters/reset', { domain: 'checkout', entries }],
  raise: ['/counters/raise', { domain: 'checkout', entries, by: 5 }],
  top: ['/domains/checkout/top?rule=checkout.user&by=rejected'],
  history: ['/history?domain=checkout'],
  whatIf: ['/whatif', examples.whatIfBodyExample],
  try: ['/try', examples.tryBodyExample],
  apply: ['/apply', examples.applyBodyExample],
  manifest: ['/manifest?namespace=shop&name=checkout'],
  rights: ['/rights?namespace=shop'],
  version: ['/version'],
  resources: ['/resources'],
  streams: ['/streams'],
  preview: ['/streams/preview?key=01J2'],
  merchants: ['/merchants'],
}

describe('each response has the shape that the OpenAPI document gives it', () => {
  for (const { id, events, answer } of apiEndpoints as readonly ApiEndpoint[]) {
    if (events !== undefined) continue
    test(id, async t => {
      const { ask, post } = await serveApi(t)
      const [path, body] = calls[id] ?? ['']
      const { status, body: found, headers } = await (body === undefined ? ask(path) : post(path, body))
      assert.equal(status, 200, JSON.stringify(found))
      assert.deepEqual(Value.Errors(answer, found), [])
      assert.match(headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/)
      assert.equal(headers.get('cache-control'), 'no-store')
    })
  }

  for (const id of ['series', 'tap'] as const) {
    test(id, async t => {
      const { url, pods } = await serveApi(t)
      const end = new AbortController()
      const response = await fetch(`${url}/${id}?domain=checkout`, { signal: end.signal })
      assert.equal(response.headers.get('content-type'), 'text/event-stream')
      const endpoint = (apiEndpoints as readonly ApiEndpoint[]).find(one => one.id === id)
      const [event = '', schema] = Object.entries(endpoint?.events ?? {})[0] ?? []
      const { name, data } = await firstEvent(response)
      assert.equal(name, event)
      assert.deepEqual(Value.Errors(schema ?? {}, data), [])
      end.abort()
      await waitFor('the stream to end at the pods', async () => pods.open === 0)
    })
  }
})

async function firstEvent(response: Response): Promise<{ name: string; data: unknown }> {
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString()
    const [, name = '', data = ''] = /event: (\w+)\ndata: (.*)\n\n/.exec(text) ?? []
    if (name !== '') return { name, data: JSON.parse(data) }
  }
  throw new Error(`no event in ${text}`)
}

test('the top keys by refused, the deprecated name, are those by rejected', async t => {
  const { ask } = await serveApi(t)
  const orders = ['', '&by=rejected', '&by=refused', '&by=hits'].map(async by => {
    const { body } = await ask(`/domains/checkout/top?rule=checkout.user${by}`)
    return (body as { readonly by?: unknown }).by
  })
  assert.deepEqual(await Promise.all(orders), ['rejected', 'rejected', 'rejected', 'hits'])
})

test('a reset and a raise change the counter, and are recorded with the user', async t => {
  const { ask, post, changes } = await serveApi(t)
  const { body: before } = await ask(alice)
  assert.deepEqual([before.value, before.remaining, before.reset], [10, 0, 30])
  const { body: raised } = await post('/counters/raise', { domain: 'checkout', entries, by: 5 })
  assert.deepEqual([raised.value, raised.remaining], [5, 5])
  const { body: emptied } = await post('/counters/reset', { domain: 'checkout', entries })
  assert.deepEqual([emptied.value, emptied.confirmed], [0, ['pod-a', 'pod-b']])
  const owner = { namespace: 'shop', name: 'checkout' }
  const change = { user: 'a user of this machine', domain: 'checkout', rule: 'checkout.user', owner }
  assert.deepEqual(changes, [
    { ...change, action: 'raise', by: 5 },
    { ...change, action: 'reset' },
  ])
})

test('a change whose outcome is unknown is recorded with its cause, and the answer says so', async t => {
  const { post, pods, changes, lines } = await serveApi(t)
  const reset = () => post('/counters/reset', { domain: 'checkout', entries })
  for (const [code, status] of [
    ['deadline', 504],
    ['backend-failed', 503],
  ] as const) {
    pods.problem = new QueryError(code, 'it was late')
    const answer = await reset()
    assert.equal(answer.status, status)
    assert.equal(answer.body.error.message, 'it was late; the counter may have changed')
  }
  const owner = { namespace: 'shop', name: 'checkout' }
  const change = { user: 'a user of this machine', action: 'reset', domain: 'checkout', rule: '', owner }
  assert.deepEqual(changes, Array(2).fill({ ...change, unknown: 'it was late' }))
  const warnings = lines.filter(line => line.includes('change counter failed'))
  assert.equal(warnings.length, 2)
  assert.match(warnings[0] ?? '', /"reason":"it was late"/)
  pods.problem = new QueryError('no-rule', 'no rule matches', 'entries')
  assert.equal((await reset()).status, 404)
  assert.equal(changes.length, 2)
})

test('a reset accepts `by` without a number, since a raise has the same body', async t => {
  const { post } = await serveApi(t)
  const { status, body } = await post('/counters/reset', { domain: 'checkout', entries, by: null })
  assert.deepEqual([status, body.value], [200, 0])
})

test('a reset names the pods that have not confirmed', async t => {
  const { post, pods } = await serveApi(t)
  pods.missing = ['pod-b']
  const { status, body } = await post('/counters/reset', { domain: 'checkout', entries })
  assert.equal(status, 200)
  assert.deepEqual([body.confirmed, body.missing], [['pod-a'], ['pod-b']])
})

test('an explanation of a request has the rules in force, descriptor by descriptor', async t => {
  const { post } = await serveApi(t)
  const descriptors = [entries, [{ key: 'plan', value: '\u{202e}<script>' }]]
  const { status, body } = await post('/try', { domain: 'checkout', descriptors })
  assert.equal(status, 200)
  const [matched, unmatched] = (body as unknown as TryAnswer).descriptors
  assert.deepEqual([matched?.entries[0]?.rule, matched?.hasLimit], ['checkout.user', true])
  assert.deepEqual([unmatched?.entries[0]?.how, unmatched?.hasLimit], ['stopped', false])
  assert.match(unmatched?.entries[0]?.reason ?? '', /no rule for key plan at this level/)
  const { status: unknown, body: error } = await post('/try', { domain: 'nowhere', descriptors })
  assert.equal(unknown, 404)
  assert.equal(error.error.message, 'domain: no RateLimitConfig in force defines "nowhere"')
})

test('a caller has the rights of its token, and an invalid token is rejected', async t => {
  const asked: RightScope[] = []
  const access: CallerAuthentication = {
    async authenticate({ headers }) {
      if (headers.authorization !== 'Bearer alice') throw new ApiError('unauthenticated', 'not valid')
      return {
        name: 'alice',
        async authorize({ verb }, place) {
          asked.push(place)
          if (verb === 'update') throw new ApiError('forbidden', 'alice may not')
        },
      }
    },
  }
  const { ask } = await serveApi(t, { access })
  const { body } = await ask('/rights?namespace=shop', { headers: { authorization: 'Bearer alice' } })
  const { user, namespace, rights } = body as unknown as RightList
  assert.deepEqual([user, namespace], ['alice', 'shop'])
  assert.deepEqual(
    rights.map(({ verb, resource, allowed }) => `${verb} ${resource} ${allowed}`),
    [
      'list ratelimitconfigs true',
      'get ratelimitconfigs/counters true',
      'update ratelimitconfigs/counters false',
      'patch ratelimitconfigs true',
      'get ratelimitconfigs true',
      'list animationstreamroutes true',
      'get animationstreamroutes true',
      'list merchants true',
    ],
  )
  assert.ok(asked.every(place => place.namespace === 'shop'))
  assert.equal((await ask('/rights')).status, 401)
})

describe('the entries of a descriptor', () => {
  const cases: readonly (readonly [query: string, ...entries: string[]])[] = [
    ['descriptor=user=alice', 'user=alice'],
    ['descriptor=user=a=b,c', 'user=a=b,c'],
    ['descriptor=user%3Dalice', 'user=alice'],
    ['descriptor=user=a%2Bb%20c+d', 'user=a+b c d'],
    ['descriptor=user=alice&descriptor=path=/pay', 'user=alice', 'path=/pay'],
    ['descriptor=user=', 'user='],
    ['descriptor=user=%E2%80%AEevil', 'user=\u{202e}evil'],
  ]
  for (const [query, ...expected] of cases)
    test(query, async t => {
      const { ask } = await serveApi(t)
      const { body } = await ask(`/counters?domain=checkout&${query}`)
      assert.deepEqual(
        body.entries.map(({ key, value }: { key: string; value: string }) => `${key}=${value}`),
        expected,
      )
    })

  test('a key with `=` is percent-encoded', async t => {
    const { ask, pods } = await serveApi(t)
    const asked: unknown[] = []
    const { counter } = pods
    pods.counter = async at => {
      asked.push(at.entries)
      return counter({ domain: 'checkout', entries })
    }
    await ask('/counters?domain=checkout&descriptor=a%3Db%2Cc=d')
    await ask(`/counters?domain=checkout&descriptor=${encodeURIComponent('a%3Db%2Cc=d')}`)
    assert.deepEqual(asked, [[{ key: 'a=b,c', value: 'd' }], [{ key: 'a=b,c', value: 'd' }]])
  })
})

describe('an error names the field, the value and the allowed values', () => {
  const raise = { domain: 'checkout', entries, by: 1 }
  const whatIf = examples.whatIfBodyExample
  const byProblem = 'expected a whole number from 1 to 4294967295'
  const cases: readonly (readonly [
    text: string,
    path: string,
    body: unknown,
    status: number,
    field: string | undefined,
    message: string,
  ])[] = [
    ['a raise by -1', '/counters/raise', { ...raise, by: -1 }, 400, 'by', `-1 is not allowed; ${byProblem}`],
    ['a raise by 2^53', '/counters/raise', { ...raise, by: 2 ** 53 }, 400, 'by', byProblem],
    ['a raise by 0', '/counters/raise', { ...raise, by: 0 }, 400, 'by', byProblem],
    ['a raise by 1.5', '/counters/raise', { ...raise, by: 1.5 }, 400, 'by', byProblem],
    ['a raise by a text', '/counters/raise', { ...raise, by: '5' }, 400, 'by', 'without quotes'],
    ['a raise by nothing', '/counters/raise', { domain: 'checkout', entries }, 400, 'by', 'is missing'],
    ['no entries', '/counters/reset', { domain: 'checkout', entries: [] }, 400, 'entries', '1 to 64 items'],
    ['an unknown field', '/counters/reset', { ...raise, domian: 'x' }, 400, 'domian', 'no such field'],
    [
      'a reset by a number',
      '/counters/reset',
      raise,
      400,
      'by',
      '1 is not allowed; a reset sets the counter to 0',
    ],
    [
      'a try of an unknown domain',
      '/try',
      { domain: 'x', descriptors: [entries] },
      404,
      'domain',
      'in force',
    ],
    [
      'a value that is too long',
      '/counters/reset',
      { domain: 'checkout', entries: [{ key: 'user', value: 'x'.repeat(65_537) }] },
      400,
      'entries[0].value',
      'at most 65536',
    ],
    [
      'a body that is too large',
      '/counters/reset',
      { domain: 'checkout', entries, pad: 'x'.repeat(600_000) },
      413,
      'body',
      'the body is larger than 524288 bytes',
    ],
    [
      'a long rule',
      `/domains/x/top?rule=${'r'.repeat(16_385)}`,
      undefined,
      400,
      'rule',
      '1 to 16384 characters',
    ],
    [
      'a descriptor that is longer than the headers of a call',
      `${alice}${'x'.repeat(2 * 1024 * 1024)}`,
      undefined,
      431,
      undefined,
      'shorten the parameters, such as descriptor',
    ],
    ['a list', '/counters/reset', [], 400, '', 'expected a map'],
    ['no JSON', '/counters/reset', '{"domain": "hunter2', 400, '', 'the body is not JSON'],
    ['an unknown domain', '/counters/reset', { domain: 'x', entries }, 404, 'domain', 'no such domain'],
    [
      'entries without a rule',
      '/counters/reset',
      { domain: 'checkout', entries: [{ key: 'ip', value: '' }] },
      404,
      'entries',
      'no rule matches',
    ],
    [
      'another kind',
      '/whatif',
      { ...whatIf, kind: 'Merchant' },
      400,
      'kind',
      '"Merchant" is not RateLimitConfig',
    ],
    ['a what-if without a name', '/whatif', { ...whatIf, metadata: {} }, 400, 'metadata.name', 'not allowed'],
    [
      'a wrong unit',
      '/whatif',
      {
        ...whatIf,
        spec: {
          domain: 'checkout',
          descriptors: [{ key: 'user', rateLimit: { unit: 'minuet', requestsPerUnit: 1 } }],
        },
      },
      400,
      'spec.descriptors[0].rateLimit.unit',
      '"minuet" is not one of',
    ],
    [
      'a rule that is there twice',
      '/whatif',
      {
        ...whatIf,
        spec: { domain: 'checkout', descriptors: [{ key: 'user' }, { key: 'user' }] },
      },
      400,
      'spec.descriptors[1]',
      'duplicate spec.descriptors[0]',
    ],
    [
      'a try without descriptors',
      '/try',
      { domain: 'x', descriptors: [] },
      400,
      'descriptors',
      '1 to 64 items',
    ],
    [
      'a resource of another kind',
      '/apply',
      { ...examples.applyBodyExample, resource: { ...examples.applyBodyExample.resource, kind: 'Secret' } },
      400,
      'kind',
      '"Secret" is not',
    ],
    [
      'a counter of an unknown domain',
      '/counters?domain=x&descriptor=a=b',
      undefined,
      404,
      'domain',
      'no such',
    ],
    [
      'a counter without a rule',
      '/counters?domain=checkout&descriptor=ip=x',
      undefined,
      404,
      'descriptor',
      'no rule matches',
    ],
    ['rules of an unknown domain', '/domains/x/rules', undefined, 404, 'domain', 'no such domain'],
    ['top keys of an unknown domain', '/domains/x/top?rule=r', undefined, 404, 'domain', 'no such domain'],
    ['top keys of an unknown rule', '/domains/checkout/top?rule=nope', undefined, 404, 'rule', '"nope"'],
    ['a series of an unknown rule', '/series?domain=checkout&rule=nope', undefined, 404, 'rule', '"nope"'],
    ['a history of an unknown rule', '/history?domain=checkout&rule=nope', undefined, 404, 'rule', '"nope"'],
    ['a tap of an unknown rule', '/tap?domain=checkout&rule=nope', undefined, 404, 'rule', '"nope"'],
    ['an unknown path', '/nothing', undefined, 404, undefined, 'openapi.json'],
    ['another method', '/counters/reset', undefined, 405, undefined, 'expected POST'],
    ['no domain', '/counters?descriptor=a=b', undefined, 400, 'domain', 'is missing'],
    ['no descriptor', '/counters?domain=checkout', undefined, 400, 'descriptor', 'is missing'],
    [
      'a descriptor without a key',
      '/counters?domain=checkout&descriptor==b',
      undefined,
      400,
      'descriptor[0]',
      'KEY=VALUE',
    ],
    ['a bad escape', '/counters?domain=%zz&descriptor=a=b', undefined, 400, 'domain', 'percent-encoded'],
    ['a repeated domain', `${alice}&domain=x`, undefined, 400, 'domain', 'is given 2 times'],
    ['an unknown parameter', `${alice}&dommain=x`, undefined, 400, 'dommain', 'no such field'],
    ['a preview of no request', '/streams/preview?key=x', undefined, 404, 'key', 'no broker keeps a request'],
    ['a manifest without a name', '/manifest?namespace=shop', undefined, 400, 'name', 'is missing'],
    [
      'a manifest of a Secret',
      '/manifest?kind=Secret&name=s',
      undefined,
      400,
      'kind',
      '"Secret" is not one of RateLimitConfig',
    ],
    ['a large limit', '/domains?limit=5000', undefined, 400, 'limit', 'from 1 to 1000'],
    [
      'a bad choice',
      '/domains/checkout/top?rule=r&by=x',
      undefined,
      400,
      'by',
      '"x" is not one of rejected, hits, refused',
    ],
  ]
  for (const [text, path, body, expected, field, message] of cases)
    test(text, async t => {
      const { ask, post } = await serveApi(t)
      const { status, body: found } = await (body === undefined ? ask(path) : post(path, body))
      assert.equal(status, expected, JSON.stringify(found))
      assert.deepEqual(Value.Errors(errorAnswer, found), [])
      assert.equal(found.error.field, field)
      assert.ok(found.error.message.includes(message), found.error.message)
      assert.ok(!JSON.stringify(found).includes('hunter2'))
    })
})

test('a POST is rejected without the content type that pages of other sites cannot send', async t => {
  const { post, changes } = await serveApi(t)
  const body = { domain: 'checkout', entries }
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
    const { status, body: found } = await post('/counters/reset', body, { 'content-type': type })
    assert.equal(status, 415)
    assert.match(found.error.message, /expected application\/json/)
  }
  assert.deepEqual(changes, [])
})

test('a request of a page of another site is rejected and changes nothing', async t => {
  const { port, changes } = await serveApi(t)
  const status = async (start: string, ...headers: string[]) => {
    const socket = connect(port, '127.0.0.1')
    socket.end(`${[start, ...headers, 'Connection: close', '', ''].join('\r\n')}`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    return answer.toString().split(' ')[1]
  }
  const get = 'GET /api/v1/domains HTTP/1.1'
  const reset = 'POST /api/v1/counters/reset HTTP/1.1'
  assert.equal(await status(get, 'Host: localhost'), '200')
  assert.equal(await status(get, 'Host: rebound.example'), '403')
  assert.equal(await status(get, 'Host: localhost', 'Sec-Fetch-Site: cross-site'), '403')
  assert.equal(await status(get, 'Host: localhost', 'Sec-Fetch-Site: same-site'), '403')
  assert.equal(await status(get, 'Host: localhost', 'Sec-Fetch-Site: same-origin'), '200')
  assert.equal(await status(reset, 'Host: localhost', 'Origin: https://evil.example'), '403')
  assert.deepEqual(changes, [])
})

test('rules of the resource are known, also unlimited ones, and so are those that only pods report', async t => {
  const { ask, pods } = await serveApi(t)
  const statusOf = async (rule: string) => (await ask(`/domains/checkout/top?rule=${rule}`)).status
  assert.deepEqual([await statusOf('checkout.path'), await statusOf('checkout.staff')], [200, 200])
  assert.equal(await statusOf('checkout.old'), 404)
  const { rules } = pods
  pods.rules = async (domain, page) => {
    const { items } = await rules(domain, page)
    return { items: items.map(item => ({ ...item, rule: 'checkout.old' })) }
  }
  assert.equal(await statusOf('checkout.old'), 200)
  pods.rules = () => Promise.reject(new QueryError('no-pods', 'no pod is connected'))
  assert.equal(await statusOf('checkout.old'), 404)
})

test('lists are paginated', async t => {
  const { ask } = await serveApi(t)
  const { body: first } = await ask('/domains?limit=1')
  assert.deepEqual(
    first.items.map(({ domain }: { domain: string }) => domain),
    ['checkout'],
  )
  const { body: second } = await ask(`/domains?limit=1&after=${first.next}`)
  assert.deepEqual(
    [second.items[0]?.domain, second.items[0]?.owner, second.next],
    ['loans', { namespace: 'bank', name: 'loans' }, undefined],
  )
  const { body: ofBank } = await ask('/resources?namespace=bank')
  assert.deepEqual(
    ofBank.items.map(({ name }: { name: string }) => name),
    ['loans'],
  )
})

describe('an error of the pods', () => {
  const cases = [
    ['backend-failed', 503],
    ['deadline', 504],
    ['no-pods', 503],
    ['unlimited', 409],
    ['not-supported', 409],
    ['too-many', 429],
  ] as const
  for (const [code, expected] of cases)
    test(`${code} is answered with ${expected} and its cause`, async t => {
      const { ask, pods } = await serveApi(t)
      pods.problem = new QueryError(code, 'Redis: connect ECONNREFUSED')
      const { status, body } = await ask(alice)
      assert.deepEqual([status, body.error], [expected, { code, message: 'Redis: connect ECONNREFUSED' }])
    })

  test('is sent as an event on a stream', async t => {
    const { url, pods } = await serveApi(t)
    pods.problem = new QueryError('switched-off', 'no pod allows the tap')
    const { name, data } = await firstEvent(await fetch(`${url}/tap?domain=checkout`))
    assert.equal(name, 'error')
    assert.deepEqual(data, { error: { code: 'switched-off', message: 'no pod allows the tap' } })
  })

  for (const path of ['series', 'tap'])
    test(`names the field in the event of ${path}`, async t => {
      const { url } = await serveApi(t)
      const { name, data } = await firstEvent(await fetch(`${url}/${path}?domain=nowhere`))
      assert.equal(name, 'error')
      assert.partialDeepStrictEqual(data, { error: { code: 'unknown-domain', field: 'domain' } })
    })

  test('does not fail a list of domains, which then has no numbers of pods', async t => {
    const { ask, pods } = await serveApi(t)
    pods.problem = new QueryError('no-pods', 'no pod is connected')
    const { status, body } = await ask('/domains')
    assert.deepEqual([status, body.items[0]?.callsPerSecond], [200, 0])
  })
})
