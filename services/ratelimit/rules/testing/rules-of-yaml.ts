import { compile, type RuleSet } from '../compile.ts'
import type { DescriptorEntry } from '../match.ts'
import type { RateLimitDomain } from '../model.ts'
import { formatProblem } from '../problems.ts'
import { validateDomains } from '../validate.ts'
import { parseYaml } from '../yaml/parse-yaml.ts'

/** Only for tests: parses a YAML text, which must have no syntax problems. */
export function parseConfig(yaml: string, name = 'test.yaml'): RateLimitDomain {
  const parsed = parseYaml(name, yaml)
  if ('problems' in parsed) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  return parsed.value
}

/** Only for tests: compiles YAML texts; the statistics of a limit are its name. */
export function compileRules(...yamls: string[]): RuleSet<string> {
  const configs = yamls.map((yaml, index) => parseConfig(yaml, `test${index}.yaml`))
  const { problems } = validateDomains(configs, { mergeDomainConfigs: true, spelling: 'snake' })
  if (problems.length > 0) throw new Error(problems.map(formatProblem).join('\n'))
  return compile(configs, { mergeDomainConfigs: true, attach: name => name })
}

/** Only for tests: parses `user=alice path=/x` to a request's entries. `empty=` has the empty value. */
export function parseEntries(text: string): readonly DescriptorEntry[] {
  return text
    .split(' ')
    .filter(part => part !== '')
    .map(part => {
      const [key = '', ...value] = part.split('=')
      return { key, value: value.join('=') }
    })
}

/** Only for tests: returns the lines of a table, without empty lines and surrounding spaces. */
export function splitLines(table: string): string[] {
  return table
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
}

/**
 * A small hostile configuration may take at most this CPU time: 100 ms are promised, and the machine of the
 * test may be three times slower than usual. A normal configuration takes a hundredth of it.
 */
export const maxHostileCpuMs = 3 * 100

const maxTries = 3

/**
 * Returns the CPU time of this thread for some work, without other programs. Returns the least of a few tries
 * if the first took long, since a garbage collection can fall into any of them.
 */
export function measureCpuMs(work: () => void): number {
  let leastMs = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < maxTries && leastMs >= maxHostileCpuMs; tries++) {
    const spentMs = startCpuTimer()
    work()
    leastMs = Math.min(leastMs, spentMs())
  }
  return leastMs
}

/**
 * Like `measureCpuMs`, for asynchronous work. Includes the time of other work that the thread does meanwhile.
 */
export async function measureAsyncCpuMs(work: () => Promise<void>): Promise<number> {
  let leastMs = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < maxTries && leastMs >= maxHostileCpuMs; tries++) {
    const spentMs = startCpuTimer()
    await work()
    leastMs = Math.min(leastMs, spentMs())
  }
  return leastMs
}

function startCpuTimer(): () => number {
  const before = process.threadCpuUsage()
  return () => {
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  }
}
