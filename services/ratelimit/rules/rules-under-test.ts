import { compile, type RuleSet } from './compile.ts'
import type { DomainConfig } from './config.ts'
import { formatProblem } from './format-problem.ts'
import type { Entry } from './match.ts'
import { parseYaml } from './parse-yaml.ts'
import { validate } from './validate.ts'

/** Only for tests: the configuration of a YAML text that must be right so far as parsing goes. */
export function configOf(yaml: string, name = 'test.yaml'): DomainConfig {
  const parsed = parseYaml(name, yaml)
  if ('problems' in parsed) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  return parsed.value
}

/** Only for tests: YAML texts as rules, whose statistics are their names. */
export function rulesOf(...yamls: string[]): RuleSet<string> {
  const configs = yamls.map((yaml, index) => configOf(yaml, `test${index}.yaml`))
  const { problems } = validate(configs, { mergeDomainConfigs: true, spelling: 'snake' })
  if (problems.length > 0) throw new Error(problems.map(formatProblem).join('\n'))
  return compile(configs, { mergeDomainConfigs: true, attach: name => name })
}

/** Only for tests: `user=alice path=/x` as a request's entries. `empty=` has the empty value. */
export function entriesOf(text: string): readonly Entry[] {
  return text
    .split(' ')
    .filter(part => part !== '')
    .map(part => {
      const [key = '', ...value] = part.split('=')
      return { key, value: value.join('=') }
    })
}

/** Only for tests: the lines of a table of text, without empty lines and the space around them. */
export function linesOf(table: string): string[] {
  return table
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
}

/**
 * What a small configuration may cost at most, however hostile: 100 ms are promised, on a machine that is not
 * three times slower than usual. An honest one takes a hundredth of it.
 */
export const maxHostileCpuMs = 3 * 100

const maxTries = 3

/**
 * The time that this thread works on something: that of other programs is not counted. The least of a few
 * tries when the first took long, since a collection of garbage can fall into any.
 */
export function cpuMsOf(work: () => void): number {
  let leastMs = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < maxTries && leastMs >= maxHostileCpuMs; tries++) {
    const spentMs = startCpuTimer()
    work()
    leastMs = Math.min(leastMs, spentMs())
  }
  return leastMs
}

/** The same for work that gives others their turn; what they do in it is counted, too. */
export async function asyncCpuMsOf(work: () => Promise<void>): Promise<number> {
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
