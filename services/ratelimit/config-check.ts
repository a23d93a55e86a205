import { statSync } from 'node:fs'
import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { aFolder, optionalText, toggle } from '@tollway/chassis/command-line/option.ts'
import { parseOptions, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { executeCommand } from '@tollway/chassis/command-line/run-command.ts'
import { findFiles } from './config/find-files.ts'
import { readFiles } from './config/read-files.ts'
import type { ConfigProblem } from './rules/model.ts'
import { formatProblem } from './rules/problems.ts'
import { validateParsed } from './rules/yaml/parse-yaml.ts'

export interface CheckedFolder {
  readonly files: number
  readonly domains: number
  /**
   * All problems, each with the path of its file. A service that finds one in a folder keeps its
   * configuration.
   */
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

/** Checks a folder as the service reads it with RUNTIME_WATCH_ROOT=false. */
export function checkConfigFolder(folder: string, mergeDomainConfigs: boolean): CheckedFolder {
  const found = findFiles(folder, { keyPrefix: `${folder}/`, keySeparator: '/', ignoreDotFiles: false })
  const read = readFiles(found)
  const judged = validateParsed(read.parsed, { mergeDomainConfigs, spelling: 'snake' })
  return {
    files: found.files.length,
    domains: new Set(read.parsed.flatMap(one => ('value' in one ? [one.value.domain] : []))).size,
    problems: [...read.problems, ...judged.problems],
    warnings: [...read.warnings, ...judged.warnings],
  }
}

const options = {
  'config-dir': optionalText({
    placeholder: 'DIR',
    help: 'the folder that the service reads',
    completion: aFolder,
  }),
  'merge-domain-configs': toggle({
    help: 'allow several files to share a domain, as MERGE_DOMAIN_CONFIG=true does',
  }),
}

export const configCheck: Command = {
  name: 'config-check',
  summary: 'report every problem in the YAML files of a rate limit service',
  options,
  help: {
    usage: ['--config-dir DIR [--merge-domain-configs]'],
    description: `\
Reads every *.yaml and *.yml file of the rate limit service below DIR and reports all problems of all of them,
each with its file, its field and the allowed values. The service rejects a folder with a problem. Valid
settings that are probably unintended are reported as warnings.`,
    remarks:
      'The spellings of envoyproxy/ratelimit, -config_dir and -merge_domain_configs, are accepted too.',
    exitCodes: '0 when all files are valid, 1 when there is a problem, 2 when DIR cannot be read.',
    examples: [
      'tollway config-check --config-dir /srv/runtime_data/current/config',
      'tollway config-check -config_dir limits -merge_domain_configs',
    ],
  },
  async run(args, output) {
    const { folder, merge } = parseConfigCheckArgs(args)
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new Error(`--config-dir ${folder}: no such folder`)
    const checked = checkConfigFolder(folder, merge)
    output.print(formatCheckedFolder(checked))
    return checked.problems.length === 0 ? exitCodes.ok : exitCodes.wrong
  },
}

/** The flags of envoyproxy/ratelimit follow Go's conventions: one dash or two, with `_` in the names. */
const referenceFlag = /^--?(config[_-]dir|merge[_-]domain[_-]configs)(=.*)?$/s

export function parseConfigCheckArgs(args: readonly string[]): { folder: string; merge: boolean } {
  const rewritten = args.map(arg => {
    const [, flag, value = ''] = referenceFlag.exec(arg) ?? []
    return flag === undefined ? arg : `--${flag.replaceAll('_', '-')}${value}`
  })
  const { values } = parseOptions(rewritten, options)
  const folder = requireOption('--config-dir', values['config-dir'] || undefined)
  return { folder: folder.replace(/(?<=.)\/+$/, ''), merge: values['merge-domain-configs'] }
}

export function formatCheckedFolder({ files, domains, problems, warnings }: CheckedFolder): string {
  const lines = [
    ...problems.map(formatProblem),
    ...warnings.map(warning => `warning: ${formatProblem(warning)}`),
    problems.length === 0
      ? `all rate limit configs ok: ${formatCount(files, 'file')}, ${formatCount(domains, 'domain')}`
      : formatCount(problems.length, 'problem'),
  ]
  return `${lines.join('\n')}\n`
}

function formatCount(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

if (import.meta.main) {
  process.exitCode = await executeCommand(
    configCheck,
    'node services/ratelimit/config-check.ts',
    process.argv.slice(2),
    {
      print: line => process.stdout.write(line),
      printError: line => process.stderr.write(line),
    },
  )
}
