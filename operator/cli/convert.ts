import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { DomainConfig, Problem } from '@tollway/ratelimit/rules/config.ts'
import { formatProblem } from '@tollway/ratelimit/rules/format-problem.ts'
import { parseYaml } from '@tollway/ratelimit/rules/parse-yaml.ts'
import { validate } from '@tollway/ratelimit/rules/validate.ts'
import { convertConfiguration } from '../translate/convert-configuration.ts'
import { type Command, exitCodes, UsageError } from './command.ts'
import { parseFormat, parseOptions, render } from './options.ts'

export const convert: Command = {
  name: 'convert',
  summary: 'turn rate limit YAML files into RateLimitConfig resources',
  help: `Usage: tollway convert PATH... [--namespace NAME] [-o yaml|json]

Reads configuration files of the rate limit service (domain, descriptors, rate_limit: requests_per_unit, …), and prints
the RateLimitConfig resources that decide the same, one document a domain. A PATH is a file, or a folder whose *.yaml
and *.yml files are all read. Nothing is printed when a file is wrong: every problem is told instead.

  -n, --namespace NAME  the namespace of the resources (default "default")
  -o, --output FORMAT   yaml (default) or json

Exit code: 0 when all were converted, 1 when a file is wrong, 2 when a path cannot be read.

Examples:
  tollway convert /srv/runtime_data/current/config --namespace shop > limits.yaml
  tollway convert basic.yaml | kubectl apply -f -
`,
  async run(args, output) {
    const { values, positionals } = parseOptions(
      args,
      {
        namespace: { type: 'string', short: 'n', default: 'default' },
        output: { type: 'string', short: 'o' },
      },
      true,
    )
    const format = parseFormat(values.output, 'yaml')
    if (format === 'table') throw new UsageError('-o table: must be one of yaml, json')
    if (positionals.length === 0) throw new UsageError('name the files to convert')
    const configs: DomainConfig[] = []
    const problems: Problem[] = []
    const warnings: Problem[] = []
    for (const path of positionals.flatMap(filesOf)) {
      const parsed = parseYaml(path, readFileSync(path, 'utf8'))
      if ('problems' in parsed) problems.push(...parsed.problems)
      else {
        configs.push(parsed.value)
        warnings.push(...parsed.warnings)
      }
    }
    const judged = validate(configs, { mergeDomainConfigs: false, spelling: 'snake' })
    for (const warning of [...warnings, ...judged.warnings]) output.printError(`${formatProblem(warning)}\n`)
    problems.push(...judged.problems)
    if (problems.length > 0) {
      for (const problem of problems) output.printError(`${formatProblem(problem)}\n`)
      return exitCodes.wrong
    }
    const documents = configs.map(config => convertConfiguration(config, values.namespace))
    const rendered = documents.map(document => render(document, format))
    output.print(rendered.join(format === 'yaml' ? '---\n' : ''))
    return exitCodes.ok
  },
}

function filesOf(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) throw new UsageError(`${path}: no such file or folder`)
  if (!stat.isDirectory()) return [path]
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' })
  return names
    .filter(name => /\.ya?ml$/.test(name))
    .sort()
    .map(name => join(path, name))
}
