import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectedName } from './differences.ts'
import { type Pair, startPair } from './pair.ts'
import { missingReference } from './start-reference.ts'
import { formatAnswer, parseRequest } from './text-table.ts'

const configuration = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: user, value: vip, rate_limit: {name: vips, unit: month, requests_per_unit: 9}}
  - {key: user, value: "guest*", rate_limit: {unit: week, requests_per_unit: 2}}
  - {key: user, value: none, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: user, value: white}
  - {key: user, value: free, rate_limit: {unlimited: true, replaces: [{name: vips}]}}
  - {key: files, value: "a*z", rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: a_b, value: c, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: "wild*", rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: __key, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: count, rate_limit: {unit: year, requests_per_unit: 4294967295}}
  - key: level
    descriptors:
      - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
`

/** Sequential requests with the same answer from both. */
const same = `
user=alice                          -> OK: OK 4/5 YEAR
user=alice +0                       -> OK: OK 4/5 YEAR
user=alice +4                       -> OK: OK 0/5 YEAR
user=alice +0                       -> OK: OK 0/5 YEAR
user=alice                          -> OVER: OVER 0/5 YEAR
user=                               -> OK: OK 4/5 YEAR
user=vip hits=3                     -> OK: OK 6/9 MONTH vips
user=vip | user=vip                 -> OK: OK 5/9 MONTH vips | OK 4/9 MONTH vips
user=guest                          -> OK: OK 1/2 WEEK
user=guest-1                        -> OK: OK 1/2 WEEK
user=none +0                        -> OK: OK 0/0 DAY
user=none                           -> OVER: OVER 0/0 DAY
user=white                          -> OK: OK
user=free                           -> OK: OK unlimited
user=free | user=vip                -> OK: OK unlimited | OK
user=none | user=bob                -> OVER: OVER 0/0 DAY | OK 4/5 YEAR
level=x                             -> OK: OK
level=x user=y                      -> OK: OK 2/3 YEAR
level=x user=y other=z              -> OK: OK
other=x                             -> OK: OK
=                                   -> OK: OK
-                                   -> OK: OK
shadow=x                            -> OK: OK 0/0 YEAR
count=x +0                          -> OK: OK 4294967295/4294967295 YEAR
count=x +4294967295                 -> OK: OK 0/4294967295 YEAR
count=x                             -> OVER: OVER 0/4294967295 YEAR
__key=x                             -> OK: OK 4/5 YEAR
user=huge hits=4294967295           -> OVER: OVER 0/5 YEAR
user=huger +9007199254740992        -> OVER: OVER 0/5 YEAR
user=own limit=2/4                  -> OK: OK 1/2 DAY
user=own limit=0/6                  -> OVER: OVER 0/0 YEAR
- limit=3/1                         -> OK: OK 2/3 SECOND
constructor=x __proto__=y           -> OK: OK
nobody: user=x                      -> OK: OK
__proto__: user=x                   -> OK: OK
: user=x                            -> UNKNOWN rate limit domain must not be empty
d: nothing                          -> UNKNOWN rate limit descriptor list must not be empty
: nothing                           -> UNKNOWN rate limit domain must not be empty
`

/** A request, the service's answer, the reference's answer, and the reason of the difference. */
const different: readonly (readonly [string, string, string, string])[] = [
  ['files=a-z', 'OK: OK 4/5 YEAR', 'OK: OK', 'later versions of the reference accept a * anywhere'],
  [
    'a=b_c',
    'OK: OK',
    'OK: OK 4/5 YEAR',
    'the reference confuses the key a with the value b_c and the key a_b with the value c; only the cache keys are equal',
  ],
  ['quota=x', 'OK: OK 0/1 YEAR', 'OK: OK 0/1 YEAR', ''],
  ['quota=x', 'OVER: OVER 0/1 YEAR', 'OK: OK 0/1 YEAR', 'later versions report a used quota'],
  [
    'quota=x | user=q',
    'OVER: OVER 0/1 YEAR | OK 4/5 YEAR',
    'OK: OK 0/1 YEAR | OK 4/5 YEAR',
    'all quotas are used up',
  ],
  [
    'quota=x | quota=y',
    'OK: OVER 0/1 YEAR | OK 0/1 YEAR',
    'OK: OK 0/1 YEAR | OK 0/1 YEAR',
    'not all quotas are used up',
  ],
  [
    'user=week limit=2/7',
    'INVALID_ARGUMENT descriptors[0].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR',
    'OK: OK 1/2 WEEK',
    'the unit of a limit in a request has no value 7; the reference uses the unit of its answers',
  ],
  [
    'user=minus +9223372036854775808 | user=neighbour',
    'OVER: OVER 0/5 YEAR | OK 4/5 YEAR',
    'UNKNOWN command ["INCRBY" "reference:d_user_minus_WINDOW" "-9223372036854775808"] in pipeline returned ' +
      'error: invalid character - at position 0 in parseUint',
    'a value beyond the counter is over the limit; the reference counts backwards and fails',
  ],
  ['user=neighbour', 'OK: OK 3/5 YEAR', 'OK: OK 3/5 YEAR', ''],
  [
    'user=most +18446744073709551615',
    'OVER: OVER 0/5 YEAR',
    'UNKNOWN command ["INCRBY" "reference:d_user_most_WINDOW" "-1"] in pipeline returned error: invalid ' +
      'character - at position 0 in parseUint',
    'as before',
  ],
]

const skip = missingProgram('redis-server') || missingReference()

describe('decisions of the reference and of Tollway', { skip }, () => {
  let redis: RedisServer
  let pair: Pair
  const ending: (() => Promise<unknown>)[] = []
  before(async () => {
    redis = await startRedis()
    ending.push(() => redis.stop())
    pair = await startPair({ after: end => void ending.unshift(end) }, { redis, files: [configuration] })
  })
  after(async () => {
    for (const end of ending) await end()
  })

  for (const line of same.trim().split('\n')) {
    const [request = '', answer = ''] = line.split(' -> ').map(part => part.trim())
    test(`${request} → ${answer}`, async () => {
      const { ours, reference } = await pair.ask(parseRequest(request, 'd'))
      assert.deepEqual(
        { ours: formatAnswer(ours), reference: formatAnswer(reference) },
        { ours: answer, reference: answer },
      )
    })
  }

  for (const [request, own, its, reason] of different) {
    test(`${request} → ${own}${reason && `, because ${reason}`}`, async () => {
      const { ours, reference } = await pair.ask(parseRequest(request, 'd'))
      const answer = formatAnswer(reference).replace(/_\d+"/, '_WINDOW"')
      assert.deepEqual({ ours: formatAnswer(ours), reference: answer }, { ours: own, reference: its })
    })
  }

  test('both have the same gauges and timers, except those of Go and of its libraries', async () => {
    const named = (names: ReadonlySet<string>) =>
      [...names].filter(name => expectedName(name) !== undefined || name.endsWith('cx_active')).sort()
    const all = ['ratelimit.redis_pool.cx_active', 'ratelimit_server.ShouldRateLimit.response_time']
    const both = () => [pair.ours, pair.reference].map(side => named(side.gaugesAndTimers()))
    await waitFor('the same names', () => both().every(names => names.length >= all.length)).catch(() => {})
    assert.deepEqual(both(), [all, all])
  })

  test('/stats shows the sent values', async () => {
    const stats = await pair.ours.process.stats()
    const shown = Object.entries(stats).filter(([name]) =>
      /\.rate_limit\.|\.call\.|_server\..*requests$/.test(name),
    )
    const expected = new Map(shown.filter(([, value]) => value > 0 && Number.isSafeInteger(value)))
    assert.ok(expected.size > 20)
    const sent = (name: string) => pair.ours.sums().get(expectedName(name) ?? name)
    const missing = () => [...expected].filter(([name, value]) => sent(name) !== value)
    await waitFor('all values to be sent', () => missing().length === 0, 2000).catch(() =>
      assert.deepEqual(
        missing().map(([name, value]) => `${name}: ${value}, sent: ${sent(name)}`),
        [],
      ),
    )
  })

  test('the statistics of a key that begins with __ have the same name', async () => {
    await pair.ask(parseRequest('__key=y', 'd'))
    const name = 'ratelimit.service.rate_limit.d.__key.total_hits'
    for (const side of [pair.ours, pair.reference])
      await waitFor(`the hits of ${name}`, async () => (side.sums().get(name) ?? 0) >= 2)
  })

  test('the statistics of a limit with a * in its key have the configured key', async () => {
    const name = (key: string) => `ratelimit.service.rate_limit.d.${key}.total_hits`
    await pair.ask(parseRequest('wilder=x', 'd'))
    // The reference uses the request's key as soon as it differs from the configured one.
    await waitFor('its statistics', () => pair.reference.sums().get(name('wilder_wild*')) === 1)
    await waitFor('our statistics', () => pair.ours.sums().get(name('wild*')) === 1)
  })

  test('a request that crashes the reference is rejected', async t => {
    const noUnit = parseRequest('user=x limit=1/0', 'd')
    const answer = await pair.ours.ask(noUnit)
    assert.match(
      formatAnswer(answer),
      /^INVALID_ARGUMENT descriptors\[0\]\.limit\.unit must be one of SECOND, /,
    )
    const its = await pair.reference.ask(noUnit)
    assert.equal(its['status'], 'UNAVAILABLE')
    await waitFor('the end of the reference', () => pair.reference.process.program.process.exitCode === 2)
    assert.equal(await pair.ours.process.health(), 200)
    t.diagnostic('the reference ended by a panic, as expected')
  })
})
