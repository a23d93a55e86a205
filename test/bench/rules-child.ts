import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { match } from '@tollway/ratelimit/rules/match.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import { parseYaml } from '@tollway/ratelimit/rules/yaml/parse-yaml.ts'
import { domain, nestedQuestions, nestedRules } from './configurations.ts'
import { uniform } from './load/requests.ts'

/** Times one configuration of 100,000 descriptors from its text to its matches, and prints the figures. */
export interface RulesFigures {
  readonly readSeconds: number
  readonly compileSeconds: number
  readonly matchMicros: number
}

const descriptors = 100_000
const batches = 2000
const batchMatches = 128

/** Returns the CPU time, which is the elapsed time on a core without other programs. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

const text = nestedRules(descriptors)
const started = cpuSeconds()
const parsed = parseYaml('bench.yaml', text)
if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems.slice(0, 3)))
const { problems } = validateDomains([parsed.value], { mergeDomainConfigs: false, spelling: 'snake' })
if (problems.length > 0) throw new Error(JSON.stringify(problems.slice(0, 3)))
const read = cpuSeconds()
const rules = compile([parsed.value], { mergeDomainConfigs: false, attach: name => name })
const compiled = cpuSeconds()

const next = uniform(descriptors)

/**
 * Returns entries as after decoding a request: the texts are new, and in the cache, but the rules may be
 * anywhere in memory.
 */
function freshEntries() {
  const [question] = nestedQuestions(descriptors, 1, next())
  return question?.descriptors[0]?.entries ?? []
}

function matchSeconds(): number {
  let total = 0
  for (let batch = 0; batch < batches; batch++) {
    const asked = Array.from({ length: batchMatches }, freshEntries)
    const start = cpuSeconds()
    for (const entries of asked) {
      if (match(rules, domain, entries) === undefined)
        throw new Error(`no match of ${JSON.stringify(entries)}`)
    }
    total += cpuSeconds() - start
  }
  return total
}

matchSeconds()
const figures: RulesFigures = {
  readSeconds: read - started,
  compileSeconds: compiled - read,
  matchMicros: (matchSeconds() * 1e6) / (batches * batchMatches),
}
process.stdout.write(JSON.stringify(figures))
