import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mogrify, readMogrifiers } from './mogrifiers.ts'

const withinLimit = 'ratelimit.service.rate_limit.mongo_cps.database_users.within_limit'
const limits = '^ratelimit\\.service\\.rate_limit\\.(.*)\\.(.*)\\.(.*)$'

/** Reads mogrifiers from PATTERN, NAME and TAGS; they are named A, B, … */
function read(...rules: readonly (readonly [string, string, string])[]) {
  const names = rules.map((_, index) => String.fromCharCode(65 + index))
  const env = rules.flatMap(([pattern, name, tags], index) => [
    [`AGENTSTATS_MOGRIFIER_${names[index]}_PATTERN`, pattern],
    [`DOG_STATSD_MOGRIFIER_${names[index]}_NAME`, name],
    [`AGENTSTATS_MOGRIFIER_${names[index]}_TAGS`, tags],
  ])
  return readMogrifiers(names, Object.fromEntries(env))
}

function apply(statName: string, ...rules: readonly (readonly [string, string, string])[]): string {
  const mogrifiers = read(...rules)
  assert.ok('value' in mogrifiers)
  const { name, tags } = mogrify(mogrifiers.value, statName)
  return [name, ...tags.map(pair => pair.join(':'))].join(' ')
}

test('the first mogrifier that matches determines the name and the tags', () => {
  const byLimit = [limits, 'ratelimit.service.rate_limit.$3', 'domain:$1,descriptor:$2'] as const
  const other = ['within', 'other.$0', ''] as const
  const renamed = 'ratelimit.service.rate_limit.within_limit domain:mongo_cps descriptor:database_users'
  assert.equal(apply(withinLimit, byLimit, other), renamed)
  assert.equal(apply(withinLimit, other, byLimit), 'other.within')
  assert.equal(apply('a.b', byLimit, other), 'a.b')
  assert.equal(apply('a.b'), 'a.b')
})

test('a reference without a group stays unchanged', () => {
  const renamed = 'ratelimit.service.rate_limit.within_limit domain:mongo_cps descriptor:$5'
  assert.equal(
    apply(withinLimit, [limits, 'ratelimit.service.rate_limit.$3', 'domain:$1,descriptor:$5']),
    renamed,
  )
})

test('a tag can contain a colon', () => {
  assert.equal(apply('a', ['a', 'b', 'url: http://x , k:v']), 'b url:http://x k:v')
})

test('all problems are reported with the texts of the reference', () => {
  const rules = [
    ['', 'n', ''],
    ['(', 'n', ''],
    ['a', '', 'k:,:v'],
  ] as const
  const found = read(...rules)
  assert.ok('problems' in found)
  const expected = [
    'AGENTSTATS_MOGRIFIER_A_PATTERN: no PATTERN specified for mogrifier A',
    'AGENTSTATS_MOGRIFIER_B_PATTERN: failed to compile pattern for B: (: ' +
      'Invalid regular expression: /(/l: Unterminated group',
    'AGENTSTATS_MOGRIFIER_C_TAGS: no value specified for tag k for mogrifier C',
    'AGENTSTATS_MOGRIFIER_C_TAGS: no key specified for tag  for mogrifier C',
    'AGENTSTATS_MOGRIFIER_C_NAME: no NAME specified for mogrifier C',
  ]
  assert.deepEqual(
    found.problems.map(({ name, message }) => `${name}: ${message}`),
    expected,
  )
})

test('two spellings of one setting with different values are rejected', () => {
  const env = {
    AGENTSTATS_MOGRIFIER_A_PATTERN: 'a',
    DOG_STATSD_MOGRIFIER_A_PATTERN: 'b',
    DOG_STATSD_MOGRIFIER_A_NAME: 'n',
  }
  const found = readMogrifiers(['A'], env)
  assert.ok('problems' in found)
  assert.match(found.problems[0]?.message ?? '', /DOG_STATSD_MOGRIFIER_A_PATTERN has another value/)
})
