import type { RateLimitRule } from '@tollway/ratelimit/rules/model.ts'

export const patterns = 1_000
const regexes = 16

/** Rules of one level, and values that match them. */
export interface MatchKind {
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

/** Equality, and 1,000 patterns of each kind. */
export const matchKinds: Readonly<Record<string, MatchKind>> = {
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
