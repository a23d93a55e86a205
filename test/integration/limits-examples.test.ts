import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { encodeDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import { openCalendar } from '@tollway/ratelimit/rules/calendar.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { translateRateLimitConfig } from '../../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { freePorts } from '../support/free-ports.ts'
import { encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { startMemcached } from '../support/memcached-server.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { requireProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const examples = join(root, 'examples/limits')
const folders = readdirSync(examples)

async function run(...args: readonly string[]) {
  let out = ''
  const add = (text: string) => {
    out += text
  }
  const code = await runTollway(args, { print: add, printError: add })
  return { code, out }
}

function readContent(folder: string) {
  const resource = load(readFileSync(join(examples, folder, 'limits.yaml'), 'utf8'), { schema: CORE_SCHEMA })
  const made = translateRateLimitConfig(`default/${folder}`, resource)
  assert.ok('value' in made, JSON.stringify(made))
  return made.value
}

const window = /window from [-0-9]+T[0-9:]+Z to [-0-9]+T[0-9:]+Z\n/

/** An entry, the end of the line with its limit, and what the lines after it say. */
const limits: Readonly<Record<string, readonly (readonly [string, string, RegExp])[]>> = {
  windows: [
    ['user=alice', '(named per-user): 10/15 seconds', window],
    ['export=acme', '(named exports): 1000/2 weeks', window],
  ],
  calendar: [
    ['reset=alice', '3/day of Europe/Copenhagen', window],
    ['letter=acme', '100/week of America/New_York', window],
    ['plan=acme', '100000/month of Asia/Tokyo', window],
    ['budget=acme', '5000/3 months of UTC', window],
  ],
  'token-bucket': [
    [
      'page=1',
      '(named pages): 5/second in a TokenBucket of 20',
      /holds 20 requests, then a new request every 200 ms; full again 4 s after it was empty\n/,
    ],
    ['report=1', '(named reports): 100/hour in a TokenBucket of 100', /every 36 s; full again 3600 s/],
  ],
  'sliding-window': [
    ['user=alice', '(named per-user): 60/minute in a SlidingWindow', /it is empty after 120 s\n/],
    [
      'login=alice',
      '(named logins): 5/10 minutes in a SlidingWindow',
      /rejected requests are not counted; a cost that is reported later is lost if/,
    ],
  ],
  'several-limits': [
    [
      'user=alice',
      'fast 10/15 seconds; daily 1000/day of Europe/Copenhagen; trial 30/minute in a TokenBucket of 40',
      /not counted; .*\n.*fast: window from .*\n.*daily: window from .*T2[23]:00:00Z to [\s\S]*trial: shadow mode/,
    ],
  ],
  'token-budget': [
    ['team=search', '(named tokens): 100/hour in a TokenBucket of 100', /rejected requests are counted\n/],
  ],
  leased: [
    [
      'tenant=acme',
      '(named per-tenant): 300000/minute',
      /each pod takes 10 to 50 ms .*, at most 18750: so many for each pod/,
    ],
    [
      'service=a',
      '5000/second in a TokenBucket of 8000',
      /new request every 0.2 ms; .*\n.*, at most 500: so many for each pod/,
    ],
    [
      'user=alice',
      'fast 200/second; daily 100000/day',
      /at most 6250: so many for each pod[\s\S]*fast: window from/,
    ],
  ],
  quota: [
    ['user=alice', '(named per-user): 100/second', /delivery: Quota: proxies that report their use/],
    ['path=/search,plan=free', '(named free-search): 30/second in a TokenBucket of 60', /delivery: Quota/],
  ],
  'llm-budget': [['customer=acme', '(named tokens): 1000/month of Europe/Copenhagen', window]],
  concurrency: [
    [
      'tenant=acme',
      '(named in-flight): 20 at the same time',
      /held until its caller gives its hits back \(is_negative_hits\), and for at most 30 s\n.*counted under .*_Concurrency\n/,
    ],
  ],
  match: [
    [
      'plan=gold',
      'match.plan_paid: 10000/hour',
      /oneOf match of match\.plan_paid\n.*the value is one of the 2 texts\n/,
    ],
    ['path=/v2/search/a', 'match.path_search: 50/second', /\+ regex match\.path_search/],
    [
      'path=/v1/search',
      'match.path_v1: 20/second',
      /\+ prefix match\.path_v1.*\n.*\+ regex match\.path_search/,
    ],
    [
      'remote_address=10.1.2.3',
      'match.remote_address_offices: 1000/minute',
      /the address is in 10\.0\.0\.0\/8\n/,
    ],
    ['remote_address=2001:db9::1', 'match.remote_address: 100/minute', /any value match of/],
  ],
  'all-or-nothing': [
    ['user=alice', '(named per-user): 3/day', /counted under /],
    ['tenant=acme', '(named per-tenant): 2/day', /counted under /],
  ],
  headers: [
    ['user=alice', '(named per-user): 2/day', /counted under /],
    ['service=web', '(named protection): 100000/day', /headers of answers do not mention it\n/],
  ],
}

test('each example is valid, and tollway try prints what it counts and when it resets', async () => {
  assert.deepEqual(folders.toSorted(), Object.keys(limits).toSorted())
  for (const folder of folders) {
    const path = join(examples, folder)
    assert.deepEqual((await run('validate', '-f', path)).code, 0)
    for (const [entry, expected, more] of limits[folder] ?? []) {
      const { code, out } = await run('try', '-f', path, '-d', folder, '-e', entry)
      assert.equal(code, 0, out)
      assert.ok(out.includes(`${expected}\n`), out)
      assert.match(out, more)
    }
  }
  const both = ['-e', 'user=alice', '-e', 'tenant=acme']
  const { out } = await run('try', '-f', join(examples, 'all-or-nothing'), '-d', 'all-or-nothing', ...both)
  assert.match(out, /allOrNothing: every limit above counts the request if all of them admit it\n$/)
})

test('a process lists its features, gets the examples from the feed, and enforces them', async t => {
  const [port = 0] = await freePorts(1)
  let streams = 0
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [rateLimitTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({ methods: feed.methods, onDefect: error => assert.fail(`${error}`) })
  await server.listen({ host: '127.0.0.1', port })
  t.after(async () => {
    feed.close()
    await server.drain(0)
  })
  const resources = folders.map(readContent).map(encodeRateLimitDomain)
  feed.publish(createSnapshot(rateLimitTypeUrl, resources))
  const service = await startRateLimit(t, {
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    CONFIG_GRPC_XDS_NODE_METADATA: 'uid:pod',
    RESPONSE_HEADERS: 'ietf-draft',
  })
  await service.serves()
  await waitFor('the acknowledgement', () =>
    resources.every(each => feed.enforcement(rateLimitTypeUrl, ['pod'])(each).acknowledged.has('pod')),
  )
  const rules = await (await fetch(`http://127.0.0.1:${service.debugPort}/rlconfig`)).text()
  assert.match(rules, /windows\.user: unit=SECOND requests_per_unit=10 unit_multiplier=15, shadow_mode/)
  assert.match(
    rules,
    /budget: unit=MONTH requests_per_unit=5000 unit_multiplier=3 time_zone=UTC anchor_month=2 tzdata=/,
  )

  const days = openCalendar({ unit: 'day', timeZone: 'Europe/Copenhagen' })
  const dayOfCopenhagen = () => days.windowAt(Math.floor(Date.now() / 1000)).start
  const codes = await inOneWindow(dayOfCopenhagen, async attempt => {
    const found: number[] = []
    for (let call = 0; call < 4; call += 1) found.push(await service.ask('calendar', 'reset', attempt))
    return found
  })
  assert.deepEqual(codes, [200, 200, 200, 429])
  await enforcesAlgorithms(service)
  await enforcesTogether(service)
  await enforcesMatches(service)
})

test('memcached counts the example of match like memory does', async t => {
  if (!requireProgram(t, 'memcached')) return
  const memcached = await startMemcached()
  t.after(() => memcached.stop())
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  feed.send(encodeResponse('1', [encodeDomain(readContent('match'))]))
  const service = await startRateLimit(t, {
    BACKEND_TYPE: 'memcache',
    MEMCACHE_HOST_PORT: memcached.address,
    RESPONSE_HEADERS: 'ietf-draft',
    ...feed.settings,
  })
  await service.serves()
  await enforcesMatches(service)
})

/** Returns the window of so many seconds. */
const windowOf = (seconds: number) => () => Math.floor(Date.now() / 1000 / seconds)

/** Resolves with what `run` finds within one window. It is given other values for each attempt. */
async function inOneWindow<T>(window: () => number, run: (attempt: string) => Promise<T>): Promise<T> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const began = window()
    const found = await run(`${attempt}`)
    if (window() === began) return found
  }
  return assert.fail('each attempt took longer than a window')
}

async function enforcesMatches(service: RateLimitProcess): Promise<void> {
  const ask = async (entry: string) => {
    const headers = (await askAll(service, 'match', entry)).headers.join()
    return { limit: Number(/q=(\d+)/.exec(headers)?.[1]), left: Number(/r=(\d+)/.exec(headers)?.[1]) }
  }
  /** What each of these leaves of its limit. */
  const remaining = async (...entries: readonly string[]) => {
    const found: string[] = []
    for (const entry of entries) {
      const { limit, left } = await ask(entry)
      found.push(`${left} of ${limit}`)
    }
    return found
  }
  const network = (attempt: string, subnet: number) => `2001:db9:${attempt}:${subnet}:`
  const rejected = await inOneWindow(windowOf(60), async attempt => {
    const codes: number[] = []
    for (let call = 1; call <= 102; call++)
      codes.push(await service.ask('match', 'remote_address', `${network(attempt, 0)}:${call}`))
    return codes.filter(code => code === 429).length
  })
  assert.equal(rejected, 2, 'the addresses of a /64 count together')
  const ofAddresses = await inOneWindow(windowOf(60), attempt =>
    remaining(
      ...[`${network(attempt, 1)}:1`, `${network(attempt, 1)}:2`, `${network(attempt, 2)}:1`]
        .concat(`192.0.${attempt}.1`, `192.0.${attempt}.2`, `10.1.${attempt}.1`, `10.1.${attempt}.2`)
        .map(address => `remote_address=${address}`),
    ),
  )
  assert.deepEqual(
    ofAddresses,
    ['99 of 100', '98 of 100', '99 of 100', '99 of 100', '99 of 100', '999 of 1000', '999 of 1000'],
    'another /64 has its own counter, as each IPv4 address does',
  )
  /** The limits of two entries, and how much less the second leaves: an earlier attempt may have counted too. */
  const shared = (seconds: number, one: string, other: string) =>
    inOneWindow(windowOf(seconds), async () => {
      const [first, second] = [await ask(one), await ask(other)]
      return [first.limit, second.limit, first.left - second.left]
    })
  assert.deepEqual(await shared(1, 'path=/v2/search', 'path=/v3/search/a'), [50, 50, 1])
  assert.deepEqual(await shared(3_600, 'plan=gold', 'plan=platinum'), [10_000, 10_000, 1])
  const ofFirstVersion = await inOneWindow(windowOf(1), attempt =>
    remaining(`path=/v1/search/${attempt}`, `path=/v1/${attempt}`),
  )
  assert.deepEqual(ofFirstVersion, ['19 of 20', '19 of 20'], 'the prefix goes before the regex')
}

/** An answer of `/json`: the status code and the response headers. */
async function askAll({ httpPort }: RateLimitProcess, domain: string, ...entries: readonly string[]) {
  const descriptors = entries.map(entry => {
    const [key, value] = entry.split('=')
    return { entries: [{ key, value }] }
  })
  const body = JSON.stringify({ domain, descriptors })
  const response = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })
  const { responseHeadersToAdd = [] } = (await response.json()) as {
    responseHeadersToAdd?: readonly { readonly key: string; readonly value: string }[]
  }
  return { code: response.status, headers: responseHeadersToAdd.map(({ key, value }) => `${key}: ${value}`) }
}

async function enforcesAlgorithms(service: RateLimitProcess): Promise<void> {
  const admitted: number[] = []
  const beganMs = performance.now()
  while ((await service.ask('token-bucket', 'report', 'acme')) === 200) admitted.push(1)
  const refilled = Math.ceil((performance.now() - beganMs) / 36_000)
  assert.ok(admitted.length >= 100 && admitted.length <= 100 + refilled, `${admitted.length}`)
  const logins = await Promise.all(
    Array.from({ length: 8 }, () => service.ask('sliding-window', 'login', 'a')),
  )
  assert.equal(logins.filter(code => code === 200).length, 5)
}

async function enforcesTogether(service: RateLimitProcess): Promise<void> {
  const admitted = await inOneWindow(windowOf(15), async attempt => {
    const ask = () => service.ask('several-limits', 'user', attempt)
    const codes = await Promise.all(Array.from({ length: 12 }, ask))
    return codes.filter(code => code === 200).length
  })
  assert.equal(admitted, 10)

  const { codes, alone, headers } = await inOneWindow(windowOf(86_400), async attempt => {
    const both = async () =>
      (await askAll(service, 'all-or-nothing', `user=${attempt}`, `tenant=${attempt}`)).code
    const ask = () => service.ask('all-or-nothing', 'user', attempt)
    return {
      codes: [await both(), await both(), await both()],
      alone: [await ask(), await ask()],
      headers: (await askAll(service, 'headers', `user=${attempt}`, 'service=web')).headers,
    }
  })
  assert.deepEqual(codes, [200, 200, 429])
  assert.deepEqual(alone, [200, 429], 'the rejected request did not count for the user')
  assert.equal(headers[0], 'RateLimit-Policy: "per-user";q=2;w=86400')
  assert.match(`${headers[1]}`, /^RateLimit: "per-user";r=1;t=\d+$/)
  assert.equal(headers.length, 2)
}
