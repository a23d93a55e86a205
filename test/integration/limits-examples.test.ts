import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { openCalendar } from '@tollway/ratelimit/rules/calendar.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { encodeRateLimitDomain } from '../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { translateRateLimitConfig } from '../../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { freePorts } from '../support/free-ports.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
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
  'llm-budget': [['customer=acme', '(named tokens): 1000/month of Europe/Copenhagen', window]],
  concurrency: [
    [
      'user=alice',
      '(named in-flight): 10 at the same time',
      /held until its caller gives its hits back \(is_negative_hits\), or after 30 s, .*\n.*counted under .*_Concurrency\n/,
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

  const codes: number[] = []
  const windows = openCalendar({ unit: 'day', timeZone: 'Europe/Copenhagen' })
  const dayAt = () => windows.windowAt(Math.floor(Date.now() / 1000)).start
  const day = dayAt()
  for (let call = 0; call < 4; call += 1) codes.push(await service.ask('calendar', 'reset', 'alice'))
  if (dayAt() === day) assert.deepEqual(codes, [200, 200, 200, 429])
  await enforcesAlgorithms(service)
  await enforcesTogether(service)
  await enforcesMatches(service)
})

/** Calls around the end of a minute are not comparable. */
async function enforcesMatches(service: RateLimitProcess): Promise<void> {
  const minute = () => Math.floor(Date.now() / 60_000)
  const askAddresses = async (prefix: string) => {
    const codes: number[] = []
    for (let call = 1; call <= 102; call++)
      codes.push(await service.ask('match', 'remote_address', prefix + call))
    return codes.filter(code => code === 429).length
  }
  const began = minute()
  const [network, other, offices] = [
    await askAddresses('2001:db9::'),
    await askAddresses('192.0.2.'),
    await askAddresses('10.1.2.'),
  ]
  const [gold, platinum] = [
    await askAll(service, 'match', 'plan=gold'),
    await askAll(service, 'match', 'plan=platinum'),
  ]
  if (minute() !== began) return
  assert.deepEqual([network, other, offices], [2, 0, 0], 'only the addresses of a /64 count together')
  const remaining = ({ headers }: typeof gold) => /r=(\d+)/.exec(headers.join())?.[1]
  assert.deepEqual([remaining(gold), remaining(platinum)], ['9999', '9998'], 'both plans share a counter')
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

/** Calls around midnight are not comparable. */
async function enforcesTogether(service: RateLimitProcess): Promise<void> {
  const day = () => Math.floor(Date.now() / 86_400_000)
  const began = day()
  const fast = () => Math.floor(Date.now() / 15_000)
  const beganFast = fast()
  const several = await Promise.all(
    Array.from({ length: 12 }, () => askAll(service, 'several-limits', 'user=alice')),
  )
  if (fast() === beganFast) assert.equal(several.filter(({ code }) => code === 200).length, 10)

  const both = () => askAll(service, 'all-or-nothing', 'user=alice', 'tenant=acme')
  const codes = [(await both()).code, (await both()).code, (await both()).code]
  const alone: number[] = []
  for (let call = 0; call < 2; call++) alone.push(await service.ask('all-or-nothing', 'user', 'alice'))
  const { headers } = await askAll(service, 'headers', 'user=alice', 'service=web')
  if (day() !== began) return
  assert.deepEqual(codes, [200, 200, 429])
  assert.deepEqual(alone, [200, 429], 'the rejected request did not count for the user')
  assert.equal(headers[0], 'RateLimit-Policy: "per-user";q=2;w=86400')
  assert.match(`${headers[1]}`, /^RateLimit: "per-user";r=1;t=\d+$/)
  assert.equal(headers.length, 2)
}
