import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { toRuleFlags } from '@tollway/ratelimit/rules/fields.ts'
import { match } from '@tollway/ratelimit/rules/match.ts'
import { type MatchKind, matchKinds, patterns } from './match-kinds.ts'

/** Times a match with 1,000 patterns of each kind on one level, and prints the microseconds by kind. */
export type MatchFigures = Readonly<Record<string, number>>

const rounds = 7
const matches = 50_000

function open({ rules }: MatchKind) {
  const rateLimit = { unit: 'day', requestsPerUnit: 1, unlimited: false, name: '', replaces: [] }
  const shared = { key: 'k', ...toRuleFlags(() => false), rateLimit, descriptors: [] }
  const config = { name: 'bench', domain: 'd', descriptors: rules.map(rule => ({ ...shared, ...rule })) }
  return compile([config], { mergeDomainConfigs: false, attach: name => name })
}

const opened = Object.entries(matchKinds).map(([name, kind]) => ({
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
