import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compile, listLimits } from './compile.ts'
import { createOverride, match } from './match.ts'
import { compileRules, parseEntries, splitLines } from './testing/rules-of-yaml.ts'

interface Case {
  readonly rule: string
  readonly yaml: string
  /** `entries of a request -> name requests/unit`, or `-> none`. */
  readonly requests: string
}

const cases: readonly Case[] = [
  {
    rule: '1: the number of entries equals the depth of the rule',
    yaml: `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3}
    descriptors:
      - key: path
        value: /pay
        rate_limit: {unit: hour, requests_per_unit: 1}
  - key: flat
    rate_limit: {unit: second, requests_per_unit: 9}
`,
    requests: `
user=alice                -> shop.user 3/minute
user=alice path=/pay      -> shop.user.path_/pay 1/hour
user=alice path=/other    -> none
user=alice path=/pay x=y  -> none
path=/pay                 -> none
path=/pay user=alice      -> none
flat=1                    -> shop.flat 9/second
flat=1 flat=1             -> none
`,
  },
  {
    rule: '2: an exact value, then the first wildcard that matches, then the key alone',
    yaml: `
domain: shop
descriptors:
  - {key: path, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: path, value: "/a*", rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: path, value: "/ab*", rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: path, value: /abc, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: only, value: this, rate_limit: {unit: day, requests_per_unit: 5}}
`,
    requests: `
path=/abc  -> shop.path_/abc 4/day
path=/abd  -> shop.path_/a* 2/day
path=/a    -> shop.path_/a* 2/day
path=/b    -> shop.path 1/day
path=      -> shop.path 1/day
Path=/abc  -> none
path=/ABC  -> shop.path 1/day
only=this  -> shop.only_this 5/day
only=that  -> none
only=      -> none
`,
  },
  {
    rule: 'wildcards may be anywhere in a value, match any text, and their parts do not overlap',
    yaml: `
domain: shop
descriptors:
  - {key: pre, value: "a*", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: suf, value: "*z", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: mid, value: "a*m*z", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: twice, value: "ab*ba", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: all, value: "*", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: double, value: "a**b", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: last, value: "*ab*b", rate_limit: {unit: day, requests_per_unit: 1}}
`,
    requests: `
pre=a       -> shop.pre_a* 1/day
pre=abc     -> shop.pre_a* 1/day
pre=ba      -> none
suf=z       -> shop.suf_*z 1/day
suf=az      -> shop.suf_*z 1/day
suf=za      -> none
mid=amz     -> shop.mid_a*m*z 1/day
mid=a-m-m-z -> shop.mid_a*m*z 1/day
mid=az      -> none
mid=azm     -> none
twice=abba  -> shop.twice_ab*ba 1/day
twice=aba   -> none
all=        -> shop.all_* 1/day
all=x       -> shop.all_* 1/day
double=ab   -> shop.double_a**b 1/day
last=ab     -> none
last=abb    -> shop.last_*ab*b 1/day
pre=a*      -> shop.pre_a* 1/day
`,
  },
  {
    rule: 'a wildcard in a key is tested on key_value, among the others in the order of the configuration',
    yaml: `
domain: shop
descriptors:
  - {key: "us*", rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: user, value: "a*", rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: user, value: bob, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: "*er", value: "x", rate_limit: {unit: day, requests_per_unit: 4}}
`,
    requests: `
user=alice  -> shop.us* 1/day
user=bob    -> shop.user_bob 3/day
usage=high  -> shop.us* 1/day
other=x     -> shop.*er_x 4/day
other=y     -> none
us*=        -> shop.us* 1/day
`,
  },
  {
    rule: '3: a rule without value matches any value',
    yaml: `
domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, rate_limit: {unit: week, requests_per_unit: 7}}
`,
    requests: `
user=a path=b      -> shop.user.path 7/week
user=b path=       -> shop.user.path 7/week
user=a_b path=c_d  -> shop.user.path 7/week
`,
  },
  {
    rule: '4: without limit and rules below an entry is whitelisted; with rules below it is a placeholder',
    yaml: `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: month, requests_per_unit: 3}}
  - {key: user, value: admin}
  - {key: user, value: root, descriptors: []}
  - key: user
    value: staff
    rate_limit: null
    descriptors:
      - {key: path, value: /x, rate_limit: {unit: YEAR, requests_per_unit: 4294967295}}
`,
    requests: `
user=any            -> shop.user 3/month
user=admin          -> none
user=admin path=/x  -> none
user=root           -> none
user=staff          -> none
user=staff path=/x  -> shop.user_staff.path_/x 4294967295/year
`,
  },
  {
    rule: 'a chosen rule is final: a more specific rule hides the others below it',
    yaml: `
domain: shop
descriptors:
  - key: user
    descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 1}}]
  - key: user
    value: alice
    descriptors: [{key: verb, rate_limit: {unit: day, requests_per_unit: 2}}]
`,
    requests: `
user=alice verb=get  -> shop.user_alice.verb 2/day
user=alice path=/x   -> none
user=bob path=/x     -> shop.user.path 1/day
`,
  },
  {
    rule: '6: an unlimited rule is a match, and is marked as unlimited',
    yaml: `
domain: shop
descriptors:
  - {key: user, value: vip, rate_limit: {unlimited: true}}
  - {key: user, rate_limit: {unit: Second, requests_per_unit: 0}}
`,
    requests: `
user=vip  -> shop.user_vip unlimited
user=x    -> shop.user 0/second
`,
  },
  {
    rule: 'keys and values that are spelled alike are still different rules',
    yaml: `
domain: shop
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a_b, value: d, rate_limit: {unit: day, requests_per_unit: 2}}
`,
    requests: `
a=b_c  -> shop.a_b_c 1/day
a_b=c  -> none
a_b=d  -> shop.a_b_d 2/day
a=b_d  -> none
`,
  },
]

for (const { rule, yaml, requests } of cases) {
  test(rule, () => {
    const rules = compileRules(yaml)
    for (const line of splitLines(requests)) {
      const [entries = '', expected = ''] = line.split('->').map(part => part.trim())
      const found = match(rules, 'shop', parseEntries(entries))
      assert.equal(found === undefined ? 'none' : told(found.limit), expected, line)
    }
  })
}

function told(limit: { fullKey: string; unlimited: boolean; requestsPerUnit: number; unit: string }): string {
  return `${limit.fullKey} ${limit.unlimited ? 'unlimited' : `${limit.requestsPerUnit}/${limit.unit}`}`
}

test('a request without entries, and one of an unknown domain, have no limit', () => {
  const rules = compileRules(
    '{domain: shop, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]}',
  )
  assert.equal(match(rules, 'shop', []), undefined)
  assert.equal(match(rules, 'shops', parseEntries('a=b')), undefined)
  assert.equal(rules.domains.has('shop'), true)
  assert.equal(rules.domains.has('shops'), false)
})

test('11: configurations of one domain are merged in their order', () => {
  const rules = compileRules(
    '{domain: shop, descriptors: [{key: a, value: "x*", rate_limit: {unit: day, requests_per_unit: 1}}]}',
    '{domain: shop, descriptors: [{key: a, value: "xy*", rate_limit: {unit: day, requests_per_unit: 2}}]}',
    '{domain: shop, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 3}}]}',
  )
  assert.equal(match(rules, 'shop', parseEntries('a=xyz'))?.limit.requestsPerUnit, 1)
  assert.equal(match(rules, 'shop', parseEntries('b=1'))?.limit.requestsPerUnit, 3)
  assert.deepEqual(
    [...listLimits(rules)].map(limit => limit.fullKey),
    ['shop.a_x*', 'shop.a_xy*', 'shop.b'],
  )
})

test('a limit has all fields of its rule, and the statistics of its name', () => {
  const rules = compileRules(`
domain: shop
descriptors:
  - key: host
    value: 10.0.0.1:80
    shadow_mode: true
    quota_mode: true
    metadata: {team: [a, 1, null]}
    rate_limit: {name: n, unit: hour, requests_per_unit: 5, replaces: [{name: x}, {name: y}]}
`)
  assert.deepEqual(match(rules, 'shop', parseEntries('host=10.0.0.1:80'))?.limit, {
    name: 'n',
    fullKey: 'shop.host_10.0.0.1:80',
    statName: 'shop.host_10_0_0_1_80',
    requestsPerUnit: 5,
    unit: 'hour',
    unitSeconds: 3600,
    unlimited: false,
    shadowMode: true,
    quotaMode: true,
    replaces: ['x', 'y'],
    metadata: { team: ['a', 1, null] },
    stats: 'shop.host_10_0_0_1_80',
    configuredKey: 'shop.host_10.0.0.1:80',
    boundaries: undefined,
    admission: undefined,
    members: undefined,
  })
})

test('metadata stays with rules whose statistics have values of the request', () => {
  for (const field of ['value_to_metric', 'detailed_metric']) {
    const rules = compileRules(`
domain: shop
descriptors:
  - {key: host, metadata: {team: a}, ${field}: true, rate_limit: {unit: hour, requests_per_unit: 5}}
`)
    assert.deepEqual(match(rules, 'shop', parseEntries('host=x'))?.limit.metadata, { team: 'a' }, field)
  }
})

const cacheKeys = `
domain key=value                      -> domain_key_value_
domain key4=value4                    -> domain_key4_value4_
domain files=files/a.pdf              -> domain_files_files/*_
domain files=files/*                  -> domain_files_files/*_
domain parent=value1 files=nested/x   -> domain_parent_value1_files_nested/*_
domain parent=value2 files=nested/y   -> domain_parent_value2_files_nested/*_
domain open=a-b                       -> domain_open_a-b_
domain shared=s1 then=t               -> domain_shared_s*_then_t_
domain us_x=1                         -> domain_us_x_us*_
domain key=                           -> domain_key__
`

test('cache keys consist of domain and entries, with the pattern of values that share a counter', () => {
  const rules = compileRules(`
domain: domain
descriptors:
  - {key: key, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: key4, value: value4, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - key: parent
    descriptors:
      - {key: files, value: nested/*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: open, value: a*, rate_limit: {unit: second, requests_per_unit: 1}}
  - key: shared
    value: s*
    share_threshold: true
    descriptors: [{key: then, rate_limit: {unit: second, requests_per_unit: 1}}]
  - {key: us*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}
`)
  for (const line of splitLines(cacheKeys)) {
    const [request = '', expected = ''] = line.split('->').map(part => part.trim())
    const [domain = '', ...entries] = request.split(' ')
    assert.equal(match(rules, domain, parseEntries(entries.join(' ')))?.baseKey, expected, line)
  }
})

const names = `
plain=v                -> d.plain
exact=v                -> d.exact_v
wild=v1                -> d.wild_v*
detail=v               -> d.detail_v
detail=                -> d.detail_
up=u deep=v            -> d.up_u.deep_v
wilddetail=v1          -> d.wilddetail_v1
sharedetail=v1 x=      -> d.sharedetail_v*.x
sharedetail=v1 x=y     -> d.sharedetail_v*.x_y
value=v                -> d.value_v
value=                 -> d.value
wildvalue=v1           -> d.wildvalue_v1
sharevalue=v1          -> d.sharevalue_v*
way=a b=c              -> d.way_a.b
way=a fix=c            -> d.way_a.fix_c
way=a open=c1          -> d.way_a.open_c*
way=a det=c            -> d.way_a.det_c
ip=10.1.2.3:80|x       -> d.ip_10_1_2_3_80_x
`

test('10: statistics are named after the rule, or after the request if the rule says so', () => {
  const limit = 'rate_limit: {unit: day, requests_per_unit: 1}'
  const rules = compileRules(`
domain: d
descriptors:
  - {key: plain, ${limit}}
  - {key: exact, value: v, ${limit}}
  - {key: wild, value: v*, ${limit}}
  - {key: detail, detailed_metric: true, ${limit}}
  - {key: up, descriptors: [{key: deep, detailed_metric: true, ${limit}}]}
  - {key: wilddetail, value: v*, detailed_metric: true, value_to_metric: true, ${limit}}
  - key: sharedetail
    value: v*
    share_threshold: true
    descriptors: [{key: x, detailed_metric: true, ${limit}}]
  - {key: value, value_to_metric: true, ${limit}}
  - {key: wildvalue, value: v*, value_to_metric: true, ${limit}}
  - {key: sharevalue, value: v*, value_to_metric: true, share_threshold: true, ${limit}}
  - key: way
    value_to_metric: true
    descriptors:
      - {key: b, ${limit}}
      - {key: fix, value: c, ${limit}}
      - {key: open, value: c*, ${limit}}
      - {key: det, detailed_metric: true, ${limit}}
  - {key: ip, detailed_metric: true, ${limit}}
`)
  for (const line of splitLines(names)) {
    const [entries = '', expected] = line.split('->').map(part => part.trim())
    const attached: string[] = []
    const attach = (name: string) => `${attached.push(name)}:${name}`
    const found = match(rules, 'd', parseEntries(entries), attach)
    assert.equal(found?.limit.statName, expected, line)
    assert.ok(found?.limit.stats.endsWith(expected ?? ''), line)
    assert.ok(attached.length <= 1, line)
  }
})

test('a limit that is named after the request keeps all other fields, including its metadata', () => {
  const rules = compileRules(`
domain: d
descriptors:
  - key: a
    detailed_metric: true
    shadow_mode: true
    metadata: {x: 1}
    rate_limit: {name: n, unit: day, requests_per_unit: 1}
`)
  const [configured] = listLimits(rules)
  const found = match(rules, 'd', parseEntries('a=b'))
  const attached = {
    stats: 'd.a',
    configuredKey: 'd.a',
    boundaries: undefined,
    admission: undefined,
    members: undefined,
  }
  assert.deepEqual(found?.limit, { ...configured, fullKey: 'd.a_b', statName: 'd.a_b', ...attached })
})

test('a limit that the caller sends is named after the request, and has no modes', () => {
  const entries = parseEntries('a=b c= ip=1.2.3.4')
  const found = createOverride('d', entries, { requestsPerUnit: 42, unit: 'week' }, name => name)
  assert.deepEqual(found, {
    limit: {
      name: '',
      fullKey: 'd.a_b.c.ip_1.2.3.4',
      statName: 'd.a_b.c.ip_1_2_3_4',
      requestsPerUnit: 42,
      unit: 'week',
      unitSeconds: 604_800,
      unlimited: false,
      shadowMode: false,
      quotaMode: false,
      replaces: [],
      metadata: undefined,
      stats: 'd.a_b.c.ip_1_2_3_4',
      configuredKey: '',
      boundaries: undefined,
      admission: undefined,
      members: undefined,
    },
    baseKey: 'd_a_b_c__ip_1.2.3.4_',
  })
})

test('keys and values are always plain text', () => {
  const rules = compileRules(`
domain: __proto__
descriptors:
  - {key: __proto__, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: __proto__, value: constructor, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: "line\\nbreak\\0", value: "\\u2028*", rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: big, value: "*a*b*c", rate_limit: {unit: day, requests_per_unit: 4}}
`)
  const perUnit = (key: string, value: string) =>
    match(rules, '__proto__', [{ key, value }])?.limit.requestsPerUnit
  assert.equal(perUnit('__proto__', 'toString'), 1)
  assert.equal(perUnit('__proto__', 'constructor'), 2)
  assert.equal(perUnit('constructor', 'constructor'), undefined)
  assert.equal(perUnit('line\nbreak\0', '\u2028\0'), 3)
  assert.equal(match(rules, 'constructor', [{ key: 'a', value: 'b' }]), undefined)
  const megabyte = 'ab'.repeat(500_000)
  assert.equal(perUnit('big', megabyte), undefined)
  assert.equal(perUnit('big', `${megabyte}c`), 4)
  const found = match(rules, '__proto__', [{ key: '__proto__', value: megabyte }])
  assert.equal(found?.baseKey, `__proto_____proto___${megabyte}_`)
})

describe('many rules', () => {
  const key = (index: number) => `key${index % 1000}`
  const config = (size: number) => ({
    name: 'many',
    domain: 'd',
    descriptors: Array.from({ length: size }, (_, index) => ({
      key: key(index),
      value: `value${index}`,
      shadowMode: false,
      detailedMetric: false,
      quotaMode: false,
      valueToMetric: false,
      shareThreshold: false,
      rateLimit: { unit: 'day', requestsPerUnit: index, unlimited: false, name: '', replaces: [] },
      descriptors: [],
    })),
  })

  /** Returns the compiled rules and the CPU time for each, which does not include other processes. */
  function compiled(size: number) {
    const configs = [config(size)]
    const before = process.cpuUsage()
    const rules = compile(configs, { mergeDomainConfigs: false, attach: () => undefined })
    const { user, system } = process.cpuUsage(before)
    return { rules, microsEach: (user + system) / size }
  }

  test('each of 100,000 is found', () => {
    const { rules } = compiled(100_000)
    for (let index = 0; index < 100_000; index++) {
      const found = match(rules, 'd', [{ key: key(index), value: `value${index}` }])
      assert.equal(found?.limit.requestsPerUnit, index)
    }
  })

  test('one of many is compiled in about the time of one of few', () => {
    const few = compiled(5_000).microsEach
    const many = compiled(100_000).microsEach
    assert.ok(many < 5 * few, `${many} µs instead of ${few}`)
  })
})
