import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import { aFile, choice, textOr } from '@tollway/chassis/command-line/option.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import type { ConfigProblem, RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import { formatProblem } from '@tollway/ratelimit/rules/problems.ts'
import { parseYaml, validateParsed } from '@tollway/ratelimit/rules/yaml/parse-yaml.ts'
import { convertConfigurations } from '../../kinds/rate-limit-config/convert-configuration.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import { render } from '../render.ts'

const options = {
  namespace: textOr('default', {
    short: 'n',
    placeholder: 'NAME',
    help: 'the namespace of the resources',
  }),
  output: choice(['yaml', 'json'], { short: 'o', placeholder: 'FORMAT', help: 'the format: yaml or json' }),
}

export const convertCommand: Command = {
  name: 'convert',
  summary: 'convert rate limit YAML files to RateLimitConfig resources',
  options,
  operands: aFile,
  help: {
    usage: ['PATH... [--namespace NAME] [-o yaml|json]'],
    description: `\
Reads configuration files of the rate limit service (domain, descriptors, rate_limit: requests_per_unit, …),
and prints equivalent RateLimitConfig resources, one document for each domain. A PATH is a file, or a folder
whose *.yaml and *.yml files are all read. If a file is invalid, or has a setting that a resource cannot have,
only the problems are printed.`,
    exitCodes: '0 when all files were converted, 1 when a file is invalid, 2 when a path cannot be read.',
    examples: [
      'tollway convert /srv/runtime_data/current/config --namespace shop > limits.yaml',
      'tollway convert basic.yaml | kubectl apply -f -',
    ],
  },
  async run(args, output) {
    const { values, positionals } = parseOptions(args, options, true)
    const format = values.output
    if (positionals.length === 0) throw new UsageError('missing argument PATH')
    const parsed = positionals.flatMap(listFiles).map(path => parseYaml(path, readFileSync(path, 'utf8')))
    const configs = parsed.flatMap(one => ('value' in one ? [one.value] : []))
    const { problems, warnings } = validateParsed(parsed, { mergeDomainConfigs: false, spelling: 'snake' })
    const documents = convertConfigurations(configs, values.namespace)
    const unsupported = configs.flatMap((config, index) => findUnsupported(config, documents[index]))
    // Most problems of the file are problems of the resource too.
    const reported = problems.length > 0 ? problems : unsupported
    output.printError([...warnings, ...reported].map(problem => `${formatProblem(problem)}\n`).join(''))
    if (reported.length > 0) return exitCodes.wrong
    const rendered = documents.map(document => render(document, format))
    output.print(rendered.join(format === 'yaml' ? '---\n' : ''))
    return exitCodes.ok
  },
}

/** Returns the settings that a RateLimitConfig cannot have, such as keys that are nested too deeply. */
function findUnsupported({ name: source }: RateLimitDomain, document: unknown): readonly ConfigProblem[] {
  const translation = translateRateLimitConfig(source, document)
  return 'value' in translation ? [] : translation.problems.map(problem => ({ source, ...problem }))
}

function listFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) throw new Error(`${path}: no such file or folder`)
  if (!stat.isDirectory()) return [path]
  const found = readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter(name => /\.ya?ml$/.test(name) && statSync(join(path, name)).isFile())
    .sort()
    .map(name => join(path, name))
  if (found.length === 0) throw new Error(`${path}: no .yaml or .yml file found`)
  return found
}
