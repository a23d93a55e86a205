import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { toRuleFlags } from '@tollway/ratelimit/rules/fields.ts'
import { match } from '@tollway/ratelimit/rules/match.ts'
import type { RateLimitRule } from '@tollway/ratelimit/rules/model.ts'

/** Times a match with 1,000 patterns of each kind on one level, and prints the microseconds by kind. */
export type MatchFigures = Readonly<Record<string, number>>

const patterns = 1_000
const regexes = 16
const rounds = 7
const matches = 50_000

interface Kind {
  readonly rules: readonly Pick<RateLimitRule, 'value' | 'match' | 'groupBy'>[]
  readonly values: readonly string[]
}

const list = <T>(make: (index: number) => T, count = patterns) =>
  Array.from({ length: count }, (_, index) => make(index))
const named = (toMatch: (index: number) => RateLimitRule['match']) =>
  list(index => {
    const way = toMatch(index)
    return { value: `rule ${index}`, ...(way && { match: way }) }
  })
const ipv4 = (index: number) => `10.${index >> 8}.${index & 255}`
const ipv6 = (index: number) => `2001:db8:${index.toString(16)}:1`

const kinds: Readonly<Record<string, Kind>> = {
  equality: { rules: named(() => undefined), values: list(index => `rule ${index}`) },
  exact: { rules: named(index => ({ exact: `text ${index}` })), values: list(index => `text ${index}`) },
  oneOf: {
    rules: [{ value: 'list', match: { oneOf: list(index => `text ${index}`) } }],
    values: list(index => `text ${index}`),
  },
  cidr: {
    rules: named(index => ({ cidr: [`${ipv4(index)}.0/24`] })),
    values: list(index => `${ipv4(index)}.7`),
  },
  'cidr of IPv6': {
    rules: named(index => ({ cidr: [`${ipv6(index)}::/64`] })),
    values: list(index => `${ipv6(index)}::7`),
  },
  prefix: {
    rules: named(index => ({ prefix: `/api/v1/${index}/` })),
    values: list(index => `/api/v1/${index}/users`),
  },
  suffix: {
    rules: named(index => ({ suffix: `/${index}/large.jpg` })),
    values: list(index => `/shop/${index}/large.jpg`),
  },
  'the last of 16 regexes': {
    rules: named(index => ({ regex: `/api/v${index}/[a-z]+/[0-9]+` })).slice(0, regexes),
    values: list(index => `/api/v${regexes - 1}/users/${index}`),
  },
  'groupBy ipv6Prefix 64': {
    rules: [{ value: '', groupBy: { ipv6Prefix: 64 } }],
    values: list(index => `${ipv6(index)}::7`),
  },
}

function open({ rules }: Kind) {
  const rateLimit = { unit: 'day', requestsPerUnit: 1, unlimited: false, name: '', replaces: [] }
  const shared = { key: 'k', ...toRuleFlags(() => false), rateLimit, descriptors: [] }
  const config = { name: 'bench', domain: 'd', descriptors: rules.map(rule => ({ ...shared, ...rule })) }
  return compile([config], { mergeDomainConfigs: false, attach: name => name })
}

const opened = Object.entries(kinds).map(([name, kind]) => ({
  name,
  kind,
  rules: open(kind),
  micros: [] as number[],
}))

// The kinds take turns, so that each has its share of what else the machine does.
for (let round = 0; round < rounds; round++) {
  for (const { name, kind, rules, micros } of opened) {
    const before = process.threadCpuUsage()
    for (let asked = 0; asked < matches; asked++) {
      const value = kind.values[(asked * 7919) % patterns] ?? ''
      if (match(rules, 'd', [{ key: 'k', value }]) === undefined)
        throw new Error(`${name}: no match of ${value}`)
    }
    const { user, system } = process.threadCpuUsage(before)
    micros.push((user + system) / matches)
  }
}

const medianOf = (numbers: readonly number[]) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
const figures: MatchFigures = Object.fromEntries(opened.map(({ name, micros }) => [name, medianOf(micros)]))
process.stdout.write(JSON.stringify(figures))
