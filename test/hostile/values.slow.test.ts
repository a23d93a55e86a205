import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { toJson } from '@bufbuild/protobuf'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import { RateLimitResponseSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { defaultNameLimits } from '../../services/ratelimit/stats/limit-stats.ts'
import type { Answer, Request } from '../differential/pair.ts'
import { formatAnswer, parseRequest } from '../differential/text-table.ts'
import { type ServiceUnderAttack, startUnderAttack } from './service-under-attack.ts'

const one = (key: string, value: string, more: object = {}): Request => ({
  domain: 'd',
  descriptors: [{ entries: [{ key, value }], ...more }],
})
const fresh = 'OK: OK 4/5 YEAR'
const most = 2n ** 64n - 1n

/** Sequential requests. */
const table: readonly (readonly [string, Request, string])[] = [
  ['a line break', one('named', 'a\nlevel=error msg=x'), fresh],
  ['another line', one('named', 'a\r\nratelimit.service.config_load_error: 99'), fresh],
  ['signs of statsd', one('named', 'a:1|c\nfoo:5|c|#tag'), fresh],
  ['terminal control characters', one('named', '\x1b[2J\x07\b'), fresh],
  ['signs of Unicode', one('named', '\u2028\u2029\u202e\ufeff\u0000'), fresh],
  ['NUL', one('user', '\0'), fresh],
  ['two NUL characters are another value', one('user', '\0\0'), fresh],
  ['an empty value', one('user', ''), fresh],
  ['an empty key', one('', 'x'), 'OK: OK'],
  ['one megabyte', one('user', 'x'.repeat(1_000_000)), fresh],
  ['one megabyte, named', one('named', 'x'.repeat(1_000_000)), fresh],
  ['one megabyte as a key', one('x'.repeat(1_000_000), ''), 'OK: OK'],
  ['one megabyte as a domain', { ...one('user', 'x'), domain: 'x'.repeat(1_000_000) }, 'OK: OK'],
  ['a domain of two lines', { ...one('user', 'x'), domain: 'a\nb: 1' }, 'OK: OK'],
  ['__proto__ as a key', one('__proto__', 'polluted'), 'OK: OK'],
  ['__proto__ that is configured', one('__proto__', 'constructor'), fresh],
  ['__proto__ as a value', one('named', '__proto__'), fresh],
  ['__proto__ as a domain', { ...one('user', 'x'), domain: '__proto__' }, 'OK: OK'],
  ['constructor', one('constructor', 'prototype'), 'OK: OK'],
  ['constructor as a domain', { ...one('user', 'x'), domain: 'constructor' }, 'OK: OK'],
  ['a descriptor in a descriptor', parseRequest('__proto__=constructor user=x', 'd'), 'OK: OK'],
  ['surrogate pairs', one('user', '😀'), fresh],
  ['a decomposed character', one('user', 'e\u0301'), fresh],
  ['the composed character', one('user', '\u00e9'), fresh],
  ['no hits', one('user', 'hits', { hitsAddend: 0n }), 'OK: OK 5/5 YEAR'],
  ['2^32-1 hits', { ...one('user', 'h32'), hitsAddend: 0xffff_ffff }, 'OVER: OVER 0/5 YEAR'],
  ['2^64-1 hits', one('user', 'h64', { hitsAddend: most }), 'OVER: OVER 0/5 YEAR'],
  ['2^64-1 hits again', one('user', 'h64', { hitsAddend: most }), 'OVER: OVER 0/5 YEAR'],
  [
    '2^64-1 hits beside another',
    parseRequest(`user=h64b +${most} | user=beside`, 'd'),
    'OVER: OVER 0/5 YEAR | OK 4/5 YEAR',
  ],
  ['the one beside', one('user', 'beside'), 'OK: OK 3/5 YEAR'],
  [
    'a limit without a unit',
    one('user', 'x', { limit: { requestsPerUnit: 1, unit: 0 } }),
    'INVALID_ARGUMENT descriptors[0].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR',
  ],
  [
    'a limit with an unknown unit',
    parseRequest('user=x | user=y limit=1/99', 'd'),
    'INVALID_ARGUMENT descriptors[1].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR',
  ],
  [
    '1,000 descriptors',
    parseRequest(Array.from({ length: 1000 }, (_, index) => `user=many${index}`).join(' | '), 'd'),
    `OK: ${Array(1000).fill('OK 4/5 YEAR').join(' | ')}`,
  ],
  [
    '1,000 entries',
    parseRequest(Array.from({ length: 1000 }, (_, index) => `user=${index}`).join(' '), 'd'),
    'OK: OK',
  ],
  [
    'more parts than allowed',
    parseRequest(Array(5001).fill('user=x').join(' | '), 'd'),
    'INVALID_ARGUMENT descriptors: at most 10000 and their entries are allowed',
  ],
]

describe('hostile values', () => {
  let service: ServiceUnderAttack
  const ending: (() => Promise<unknown>)[] = []
  before(async () => {
    service = await startUnderAttack({ after: end => void ending.unshift(end) })
  })
  after(async () => {
    for (const end of ending) await end()
  })

  async function ask(request: Request): Promise<string> {
    try {
      const response = await service.caller.shouldRateLimit(request)
      return formatAnswer(toJson(RateLimitResponseSchema, response) as Answer)
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error
      return formatAnswer({ status: statusName(error.code), message: error.message })
    }
  }

  for (const [name, request, answer] of table) {
    const shown = answer.length > 100 ? `${answer.slice(0, 100)}…` : answer
    test(`${name} → ${shown}`, async () => assert.equal(await ask(request), answer))
  }

  test('the process runs, other calls are answered, and no log line is forged', async () => {
    await service.check()
    const stats = await service.process.stats()
    assert.equal(stats['ratelimit.service.config_load_error'], 0)
  })

  test('names that are too long share a separate series', async () => {
    const stats = await service.process.stats()
    assert.equal(stats['ratelimit.service.rate_limit.overflow.total_hits'], 1)
    assert.ok(Object.keys(stats).every(name => name.length < 2 * defaultNameLimits.requested.charactersOfOne))
  })

  test('unknown domains create a bounded number of series, and one log line', async () => {
    const { names } = defaultNameLimits.unknownDomains
    const domains = Array.from({ length: names + 200 }, (_, index) => `unknown ${index}`)
    for (let at = 0; at < domains.length; at += 100) {
      await Promise.all(domains.slice(at, at + 100).map(domain => ask({ ...one('user', 'x'), domain })))
    }
    const stats = Object.entries(await service.process.stats()).filter(([name]) =>
      name.endsWith('domain_not_found'),
    )
    assert.equal(stats.length, names + 1)
    const overflow = stats.find(([name]) => name === 'ratelimit.service.rate_limit.overflow.domain_not_found')
    assert.ok((overflow?.[1] ?? 0) >= 200)
    await service.check()
  })

  const soaks = process.env['SOAK'] === '1'
  test('names from requests are bounded too', {
    skip: !soaks && 'takes a minute: with SOAK=1',
  }, async () => {
    const { names } = defaultNameLimits.requested
    for (let at = 0; at < names + 5000; at += 1000) {
      const words = Array.from({ length: 1000 }, (_, index) => `named=${at + index}`)
      await ask(parseRequest(words.join(' | '), 'd'))
    }
    const stats = await service.process.stats()
    const series = Object.keys(stats).filter(name => name.includes('.named_') && name.endsWith('.total_hits'))
    assert.ok(series.length <= names)
    assert.ok((stats['ratelimit.service.rate_limit.overflow.total_hits'] ?? 0) >= 5000)
    await service.check()
  })
})
