import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { formatNetwork, parseAddress, parseNetwork } from './address.ts'
import { compile, openDomain } from './compile.ts'
import { compileDomain } from './compile-domain.ts'
import { none } from './domain-table.ts'
import { explain } from './explain.ts'
import type { GroupBy, RuleMatch } from './fields.ts'
import { createRuleFinder } from './find-same-rule.ts'
import { type DescriptorEntry, match, walk } from './match.ts'
import type { RateLimitRule } from './model.ts'
import { formatProblem } from './problems.ts'
import { compileRegex, findRegexProblem, matchesRegex } from './regex.ts'
import { makeLimit, makeRule } from './testing/make-rule.ts'
import { maxHostileCpuMs, measureCpuMs } from './testing/rules-of-yaml.ts'
import { validateDomains } from './validate.ts'

const rateLimit = makeLimit(1, 'day')

/** Makes a rule of the key `k` with this name. */
function ruleOf(value: string, more: Partial<RateLimitRule>): RateLimitRule {
  return makeRule('k', { value, rateLimit, ...more })
}

function open(descriptors: readonly RateLimitRule[]) {
  const config = { name: 'n', domain: 'd', descriptors }
  const { problems } = validateDomains([config], { mergeDomainConfigs: false, spelling: 'camel' })
  assert.deepEqual(problems.map(formatProblem), [])
  return compile([config], { mergeDomainConfigs: false, attach: () => undefined })
}

const everyKind: readonly RateLimitRule[] = [
  ruleOf('', { rateLimit }),
  ruleOf('*z', {}),
  ruleOf('second', { match: { regex: '[a-z0-9./]+' } }),
  ruleOf('first', { match: { regex: '/api/v[0-9]+/.*' } }),
  ruleOf('images', { match: { suffix: '.jpg' } }),
  ruleOf('large', { match: { suffix: '-large.jpg' } }),
  ruleOf('api', { match: { prefix: '/api/' } }),
  ruleOf('users', { match: { prefix: '/api/users' } }),
  ruleOf('ten', { match: { cidr: ['10.0.0.0/8', '2001:db8::/32'] } }),
  ruleOf('lan', { match: { cidr: ['10.1.0.0/16', '0.0.0.0/0'] } }),
  ruleOf('plans', { match: { oneOf: ['gold', 'silver', '10.9.9.9'] } }),
  ruleOf('paid', { match: { oneOf: ['gold', 'bronze', 'plans'] } }),
  ruleOf('star', { match: { exact: 'a*' } }),
  ruleOf('bronze', {}),
]

const cases: readonly [value: string, rule: string][] = [
  ['a*', 'k_star'],
  ['bronze', 'k_bronze'],
  ['gold', 'k_plans'],
  ['plans', 'k_paid'],
  ['10.9.9.9', 'k_plans'],
  ['10.9.9.8', 'k_ten'],
  ['10.1.2.3', 'k_lan'],
  ['::ffff:10.1.2.3', 'k_lan'],
  ['::FFFF:a01:203', 'k_lan'],
  ['192.0.2.1', 'k_lan'],
  ['2001:db8::1', 'k_ten'],
  ['2001:DB8:0:0:0::1', 'k_ten'],
  ['2001:db9::1', 'k'],
  ['10.1.2.03', 'k_second'],
  ['/api/', 'k_api'],
  ['/api', 'k_second'],
  ['/api/user', 'k_api'],
  ['/api/users/1-large.jpg', 'k_users'],
  ['/img/1-large.jpg', 'k_large'],
  ['/img/1.jpg', 'k_images'],
  ['.jpg', 'k_images'],
  ['abc', 'k_second'],
  ['ABz', 'k_*z'],
  ['ABC', 'k'],
  ['', 'k'],
  ['star', 'k_second'],
  ['IMAGES', 'k'],
]

test('the most specific kind of match comes first, and the longest pattern of a kind', () => {
  const rules = open(everyKind)
  for (const [value, expected] of cases) {
    const found = match(rules, 'd', [{ key: 'k', value }])
    assert.equal(found?.limit.fullKey, `d.${expected}`, value)
    assert.equal(found.baseKey, `d_k_${value}_`)
  }
  assert.equal(match(rules, 'd', [{ key: 'other', value: 'gold' }]), undefined)
})

test('an explanation lists the rules of the key in the order of precedence, and why each matches or not', () => {
  const rules = open(everyKind)
  const [entry] = explain(rules, 'd', [{ key: 'k', value: '/api/v2/a-large.jpg' }]).entries
  assert.equal(entry?.how, 'prefix')
  assert.deepEqual(
    entry.candidates?.map(
      ({ how, rule, matches, reason }) => `${matches ? '+' : '-'} ${how} ${rule}: ${reason}`,
    ),
    [
      '- exact d.k_star: the value is not a*',
      '- exact d.k_bronze: the value is not bronze',
      '- oneOf d.k_plans: the value is none of the 3 texts',
      '- oneOf d.k_paid: the value is none of the 3 texts',
      '- cidr d.k_ten: the value is not an address',
      '+ prefix d.k_api: the value begins with /api/',
      '+ suffix d.k_large: the value ends with -large.jpg',
      '+ suffix d.k_images: the value ends with .jpg',
      '+ regex d.k_first: the value matches /api/v[0-9]+/.*',
      '+ any value d.k: any value matches',
    ],
  )
  for (const [value, rule] of cases) {
    const [explained] = explain(rules, 'd', [{ key: 'k', value }]).entries
    assert.equal(explained?.candidates?.find(({ matches }) => matches)?.rule, `d.${rule}`, value)
  }
})

test('the first regular expression that matches is used, in the order written', () => {
  const rules = open(
    everyKind.toSpliced(2, 2, ...everyKind.slice(2, 4).toReversed()).filter(({ value }) => value !== 'api'),
  )
  const nameOf = (value: string) => match(rules, 'd', [{ key: 'k', value }])?.limit.fullKey
  assert.equal(nameOf('/api/v12/a'), 'd.k_first')
  assert.equal(nameOf('/api/vx/a'), 'd.k_second')
})

test('values share a counter, or have one for each network', () => {
  const groupBy: GroupBy = { ipv4Prefix: 24, ipv6Prefix: 64 }
  const below = [makeRule('path', { rateLimit })]
  const rules = open([
    ruleOf('lan', { match: { cidr: ['10.0.0.0/8', '::/0'] }, groupBy, descriptors: below }),
    ruleOf('vip', { match: { oneOf: ['a', 'b'] }, shareThreshold: true, descriptors: below }),
    ruleOf('', { groupBy: { ipv6Prefix: 48 }, detailedMetric: true }),
  ])
  const table: readonly [value: string, counted: string][] = [
    ['10.1.2.3', '10.1.2.0/24'],
    ['::ffff:10.1.2.77', '10.1.2.0/24'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '::/64'],
    ['a', 'match:vip'],
    ['b', 'match:vip'],
    ['192.0.2.1', '192.0.2.1/32'],
    ['no address', 'no address'],
    ['', ''],
  ]
  for (const [value, counted] of table) {
    const entry = { key: 'k', value }
    assert.equal(match(rules, 'd', [entry])?.baseKey, `d_k_${counted}_`, value)
    const nested = match(rules, 'd', [entry, { key: 'path', value: '/x' }])
    if (nested !== undefined) assert.equal(nested.baseKey, `d_k_${counted}_path_/x_`)
  }
  assert.equal(match(rules, 'd', [{ key: 'k', value: '192.0.2.1' }])?.limit.fullKey, 'd.k_192.0.2.1/32')
})

const texts = fc.string({ unit: fc.constantFrom('a', 'b', '/', '🚀'), minLength: 1, maxLength: 5 })
const networks = fc
  .tuple(fc.nat(255), fc.nat(3), fc.nat(32), fc.boolean())
  .map(([first, last, length, isIpv6]) => {
    const bits = `${first.toString(2).padStart(8, '0')}${last.toString(2).padStart(24, '0')}`
    return formatNetwork(`${isIpv6 ? '6' : '4'}${bits.slice(0, length)}`)
  })
const ways: fc.Arbitrary<RuleMatch> = fc.oneof(
  texts.map(exact => ({ exact })),
  fc.uniqueArray(texts, { minLength: 1, maxLength: 3 }).map(oneOf => ({ oneOf })),
  texts.map(prefix => ({ prefix })),
  texts.map(suffix => ({ suffix })),
  fc.uniqueArray(networks, { minLength: 1, maxLength: 3 }).map(cidr => ({ cidr })),
)

/** Returns the rule by trying each one; as slow and as simple as possible. */
function findSlowly(rules: readonly RateLimitRule[], value: string): string | undefined {
  const bits = parseAddress(value)
  const rated = rules.flatMap(({ value: name, match: way = {} }) => {
    const lengths = (way.cidr ?? []).flatMap(text => {
      const network = parseNetwork(text)
      return 'bits' in network && bits?.startsWith(network.bits) ? [network.bits.length] : []
    })
    if (way.exact === value) return [{ name, rank: 4e6 }]
    if (way.oneOf?.includes(value)) return [{ name, rank: 3e6 }]
    if (lengths.length > 0) return [{ name, rank: 2e6 + Math.max(...lengths) }]
    if (way.prefix !== undefined && value.startsWith(way.prefix))
      return [{ name, rank: 1e6 + way.prefix.length }]
    return way.suffix !== undefined && value.endsWith(way.suffix) ? [{ name, rank: way.suffix.length }] : []
  })
  return rated.toSorted((a, b) => b.rank - a.rank)[0]?.name
}

test('random rules match as if each of them was tried', () => {
  let matched = 0
  const values = fc.oneof(
    texts,
    networks.map(network => network.split('/')[0] ?? ''),
  )
  fc.assert(
    fc.property(fc.array(ways, { maxLength: 30 }), fc.array(values, { maxLength: 20 }), (made, asked) => {
      const descriptors = made.map((way, index) => ruleOf(`${index}`, { match: way }))
      const config = { name: 'n', domain: 'd', descriptors }
      const { problems } = validateDomains([config], { mergeDomainConfigs: false, spelling: 'camel' })
      if (problems.length > 0) return
      const domain = openDomain(compileDomain('d', [config]), { attach: () => undefined })
      for (const value of asked) {
        const found = walk(domain, [{ key: 'k', value }], { counts: false })
        const expected = findSlowly(descriptors, value)
        assert.equal(found === none ? undefined : `${found}`, expected)
        if (found !== none) matched += 1
      }
    }),
    { seed: 1, numRuns: 3000 },
  )
  assert.ok(matched > 1000, `only ${matched} values matched`)
})

const week = 'an address with a prefix length, such as 10.0.0.0/8 or 2001:db8::/32'
const rejected: readonly [rules: readonly Partial<RateLimitRule>[], problem: string][] = [
  [[{ match: {} }], 'descriptors[0].match: match has none of its fields'],
  [[{ match: { prefix: 'a', regex: 'b' } }], 'descriptors[0].match: match has prefix and regex'],
  [
    [{ match: { cidr: ['10.1.0.0/8'] } }],
    `descriptors[0].match.cidr[0]: '10.1.0.0/8' has bits of an address after its prefix; 10.0.0.0/8`,
  ],
  [
    [{ match: { cidr: ['2001:db8::1/32'] } }],
    `descriptors[0].match.cidr[0]: '2001:db8::1/32' has bits of an address after its prefix; 2001:db8::/32`,
  ],
  [
    [{ match: { cidr: ['10.0.0.0/33'] } }],
    `descriptors[0].match.cidr[0]: '10.0.0.0/33' has no valid prefix length; a number from 0 to 32`,
  ],
  [[{ match: { cidr: ['10.0.0/8'] } }], `descriptors[0].match.cidr[0]: '10.0.0/8' is not a network; ${week}`],
  [
    [{ match: { cidr: ['::ffff:0:0/90'] } }],
    `descriptors[0].match.cidr[0]: '::ffff:0:0/90' contains more than the IPv4-mapped addresses`,
  ],
  [
    [{ match: { cidr: ['10.0.0.0/8', '::ffff:10.0.0.0/104'] } }],
    `descriptors[0].match.cidr[1]: cidr has '::ffff:10.0.0.0/104' twice; once; it is also at cidr[0]`,
  ],
  [[{ match: { oneOf: ['a', 'b', 'a'] } }], `descriptors[0].match.oneOf[2]: oneOf has 'a' twice`],
  [[{ match: { oneOf: [''] } }], 'descriptors[0].match.oneOf: oneOf cannot be this value'],
  [[{ match: { regex: '(a' } }], 'descriptors[0].match.regex: missing closing ) at character 1'],
  [
    [{ match: { regex: '(([ab]c{3}d){20}){9}' } }],
    'descriptors[0].match.regex: the expression is compiled to 1280 instructions; at most 1000: repeat less',
  ],
  [
    [{ match: { regex: `(${'a'.repeat(740)}){1000}` } }],
    'descriptors[0].match.regex: the expression is compiled to more than 1000 instructions',
  ],
  [
    [{ match: { prefix: 'a' }, value: 'b*' }],
    'descriptors[0].value: value is the name of the rule beside match',
  ],
  [[{ match: { prefix: 'a' }, key: 'k*' }], 'descriptors[0].key: key cannot contain a * beside match'],
  [[{ groupBy: {} }], 'descriptors[0].groupBy: groupBy has no prefix length'],
  [[{ groupBy: { ipv4Prefix: 33 } }], 'descriptors[0].groupBy.ipv4Prefix: ipv4Prefix cannot be 33'],
  [
    [{ groupBy: { ipv4Prefix: 24 }, value: 'a' }],
    'descriptors[0].groupBy: groupBy is not allowed beside value',
  ],
  [
    [{ groupBy: { ipv4Prefix: 24 }, match: { exact: 'a' } }],
    'descriptors[0].groupBy: groupBy is not allowed beside match.exact',
  ],
  [
    [{ groupBy: { ipv4Prefix: 24 }, match: { cidr: ['::/0'] }, shareThreshold: true }],
    'descriptors[0].groupBy: groupBy is not allowed beside shareThreshold',
  ],
  [
    [{ match: { exact: 'a' } }, { value: 'a' }],
    `descriptors[0].match.exact: 'a' never matches, because it is the value of another rule`,
  ],
  [
    [{ match: { prefix: 'a' }, value: 'x' }, { match: { prefix: 'a' } }],
    `descriptors[1].match.prefix: 'a' never matches, because another rule has the same prefix; once; it is also at n, descriptors[0]`,
  ],
  [
    [{ match: { cidr: ['10.0.0.0/8'] }, value: 'x' }, { match: { cidr: ['::1', '::ffff:10.0.0.0/104'] } }],
    'descriptors[1].match.cidr[1]: ',
  ],
  [
    [{ match: { prefix: 'a' } }, {}],
    `descriptors[1]: duplicate descriptor composite key 'd.k'; once; it is also at n, descriptors[0]; value is the name of a rule with match`,
  ],
  [
    Array.from({ length: 17 }, (_, at) => ({ value: `${at}`, match: { regex: `a{${at + 1}}` } })),
    'descriptors[16].match.regex: the level has too many regular expressions; at most 16',
  ],
  [
    Array.from({ length: 3 }, (_, at) => ({
      value: `${at}`,
      match: { oneOf: Array.from({ length: 4000 }, (_, n) => `${at} ${n}`) },
    })),
    'descriptors[2].match: the rules of the level have too many patterns; at most 10000 together',
  ],
]

test('each mistake is reported with its field and what is allowed', () => {
  for (const [rules, expected] of rejected) {
    const descriptors = rules.map(rule => makeRule('k', rule))
    const { problems } = validateDomains([{ name: 'n', domain: 'd', descriptors }], {
      mergeDomainConfigs: false,
      spelling: 'camel',
    })
    const found = problems.map(({ path, message, allowed }) => `${path}: ${message}; ${allowed}`)
    assert.equal(found.length, 1, found.join('\n'))
    assert.ok(found[0]?.startsWith(expected), `${found[0]} instead of ${expected}`)
  }
})

test('a wrong expression is reported with the character at which it is wrong', () => {
  const wrong: readonly [pattern: string, problem: string][] = [
    ['/v(1|(2)', 'missing closing ) at character 3'],
    ['(a)(b', 'missing closing ) at character 4'],
    ['[)]a)', 'unexpected ) at character 5'],
    ['\\Q(\\E\\((', 'missing closing ) at character 8'],
    ['🚀(', 'missing closing ) at character 2'],
    ['[(', 'missing closing ] at character 1'],
    ['[**]a**', 'invalid nested repetition operator at character 6'],
    ['(?P<a>x)(?P<a>y)', 'duplicate capture group name at character 13'],
    ['x{1001}', 'invalid repeat count at character 2'],
    ['\\d\\', 'trailing backslash at end of expression'],
  ]
  for (const [pattern, problem] of wrong) assert.equal(findRegexProblem(pattern)?.problem, problem, pattern)
})

test('hostile expressions are rejected in little time', () => {
  const hostile = [
    `(${'a?'.repeat(370)}){1000}`,
    `(${'a'.repeat(740)}){1000}(`,
    '\\pL{1000}'.repeat(84),
    '('.repeat(768),
    `[${'**'.repeat(300)}]a**`,
  ]
  const validateAll = () => {
    for (const pattern of hostile) assert.notEqual(findRegexProblem(pattern), undefined, pattern)
  }
  assert.ok(measureCpuMs(validateAll) < maxHostileCpuMs)
})

test('addresses are those of the standard textual forms', () => {
  const right = [
    '0.0.0.0',
    '255.255.255.255',
    '::',
    '::1',
    '1::',
    '1:2:3:4:5:6:7::',
    '::2:3:4:5:6:7:8',
    '1:2:3:4:5:6:7:8',
    '::1.2.3.4',
    '1:2:3:4:5:6:1.2.3.4',
    '64:ff9b::1.2.3.4',
    'FE80::A',
  ]
  const wrong = [
    '',
    '1',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.256',
    '01.2.3.4',
    '1.2.3.4 ',
    ' ::1',
    ':',
    ':::',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1::2::3',
    '1:2:3:4::5:6:7:8',
    '12345::',
    '::g',
    '::1%eth0',
    '[::1]',
    '1.2.3.4:80',
    '::1.2.3',
    '1:2:3:4:5:6:7:1.2.3.4',
    '1:',
    ':1',
    '::1.2.3.4:5',
    `${'0'.repeat(50)}::1`,
  ]
  for (const text of right) assert.notEqual(parseAddress(text), undefined, text)
  for (const text of wrong) assert.equal(parseAddress(text), undefined, text)
  assert.equal(parseAddress('::ffff:1.2.3.4'), parseAddress('1.2.3.4'))
  for (const text of [
    '::/0',
    '0.0.0.0/0',
    '2001:db8::/32',
    '1:0:0:2::/64',
    '10.0.0.0/8',
    '::1/128',
    '1::8/128',
    '0:1::/32',
  ]) {
    const network = parseNetwork(text)
    assert.equal('bits' in network && formatNetwork(network.bits), text)
  }
})

test('values that are no addresses count in the statistics of each rule with networks', () => {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => assert.fail('too many names'))
  const names = ['offices', 'partners']
  const descriptors = [
    ruleOf('offices', { match: { cidr: ['10.0.0.0/8'] } }),
    ruleOf('partners', { match: { cidr: ['192.0.2.0/24'] } }),
    ruleOf('api', { match: { prefix: '/api' } }),
  ]
  const load = () =>
    new Map([['d', openDomain(compileDomain('d', [{ name: 'n', domain: 'd', descriptors }]), limitStats)]])
  const values = ['10.1.1.1', 'unknown', '/api/1', '203.0.113.9']
  for (const loads of [1, 2]) {
    const domains = load()
    for (const value of values) match({ domains }, 'd', [{ key: 'k', value }], limitStats.attachRequested)
    // A search for a counter is not a request.
    match({ domains }, 'd', [{ key: 'k', value: 'unknown' }])
    for (const name of names) {
      const counter = `ratelimit.service.rate_limit.d.k_${name}.not_an_address`
      assert.equal(stats.counter(counter).value, 2 * loads)
    }
  }
})

test('expressions that explode elsewhere take linear time here', () => {
  const long = 'a'.repeat(60_000)
  for (const pattern of [
    '(a+)+$',
    '(a|a)*b',
    '(a|aa)+b',
    '(.*)(.*)(.*)(.*)[^a]',
    '(x+x+)+y',
    '(a?){50}a{50}b',
    '.*.*=.*',
  ]) {
    assert.equal(findRegexProblem(pattern), undefined, pattern)
    const regex = compileRegex(pattern)
    assert.ok(measureCpuMs(() => void matchesRegex(regex, long)) < maxHostileCpuMs, pattern)
  }
  const any = compileRegex('(?s).*')
  assert.ok(matchesRegex(any, 'a'.repeat(65_536)))
  assert.ok(!matchesRegex(any, 'a'.repeat(65_537)), 'a longer text matches no expression')
  const manyStates = compileRegex('(a|b)*a(a|b){12}')
  const letters = Array.from({ length: 60_000 }, (_, index) => 'ab'[Math.imul(index, 0x9e3779b1) >>> 31])
  assert.ok(measureCpuMs(() => void matchesRegex(manyStates, letters.join(''))) < 10 * maxHostileCpuMs)
})

test('10,000 patterns and values of 1 MB take little time', () => {
  const many = (toMatch: (index: number) => RuleMatch) =>
    Array.from({ length: 3_000 }, (_, index) =>
      ruleOf(`${toMatch(index).prefix ?? 'x'} ${index}`, { match: toMatch(index) }),
    )
  const oneOf = Array.from({ length: 3_000 }, (_, index) => `value ${index}`)
  const descriptors = [
    ...many(index => ({ prefix: 'a'.repeat(index % 300) + index })),
    ...many(index => ({ suffix: `${index}${'a'.repeat(index % 300)}` })),
    ruleOf('list', { match: { oneOf } }),
    ruleOf('net', {
      match: { cidr: Array.from({ length: 900 }, (_, at) => `10.${at >> 8}.${at & 255}.0/24`) },
    }),
  ]
  assert.ok(measureCpuMs(() => void open(descriptors)) < 5 * maxHostileCpuMs)
  const rules = open(descriptors)
  for (const value of ['a'.repeat(1e6), '1:'.repeat(5e5), `${'a'.repeat(299)}🚀`]) {
    assert.ok(measureCpuMs(() => void match(rules, 'd', [{ key: 'k', value }])) < maxHostileCpuMs)
  }
})

test('opening a domain reads no text of rules without an expression, since it stops the process', () => {
  const descriptors = [ruleOf('api', { match: { prefix: '/a' } }), ruleOf('any', { match: { oneOf: ['x'] } })]
  const table = compileDomain('d', [{ name: 'n', domain: 'd', descriptors }])
  const unread = Object.defineProperty({ ...table }, 'texts', { get: () => assert.fail('texts are read') })
  assert.equal(openDomain(unread, { attach: () => undefined }).regexes.size, 0)
})

test('a rule with match is the same rule after a change, by its key and name', () => {
  const before = [ruleOf('api', { match: { prefix: '/a' } }), ruleOf('gold', { match: { oneOf: ['x'] } })]
  const after = [
    ruleOf('new', { match: { oneOf: ['api'] } }),
    ruleOf('api', { match: { suffix: '/b' } }),
    ruleOf('x', {}),
  ]
  const [old, next] = [before, after].map(descriptors =>
    compileDomain('d', [{ name: 'n', domain: 'd', descriptors }]),
  )
  assert.ok(old && next)
  const find = createRuleFinder(next, old)
  assert.deepEqual([find(0), find(1)], [1, none])
})

test('a caller gets the rule of the whole path', () => {
  const rules = open([
    makeRule('plan', {
      value: 'paid',
      match: { oneOf: ['gold', 'silver'] },
      descriptors: [makeRule('path', { value: 'api', match: { prefix: '/api' }, rateLimit })],
    }),
  ])
  const entries: DescriptorEntry[] = [
    { key: 'plan', value: 'gold' },
    { key: 'path', value: '/api/1' },
  ]
  assert.equal(match(rules, 'd', entries)?.limit.fullKey, 'd.plan_paid.path_api')
})
