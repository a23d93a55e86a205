import { parseArgs } from 'node:util'
import { findFiles } from './feeds/find-files.ts'
import { readFiles } from './feeds/read-files.ts'
import { formatProblem } from './rules/findings/format-problem.ts'
import { printable } from './rules/findings/printable.ts'
import type { Problem } from './rules/rate-limit-domain.ts'
import { validate } from './rules/validate.ts'

/** The result of checking a folder of configuration files. */
export interface CheckedFolder {
  readonly files: number
  readonly domains: number
  /**
   * All problems of all files, each with the file's path. A service with any of them keeps its active
   * configuration.
   */
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** Validates every configuration file below a folder as the service does with RUNTIME_WATCH_ROOT=false. */
export function checkConfigFolder(folder: string, mergeDomainConfigs: boolean): CheckedFolder {
  const found = findFiles(folder, { keyPrefix: `${folder}/`, keySeparator: '/', ignoreDotFiles: false })
  const read = readFiles(found)
  const judged = validate(read.configs, { mergeDomainConfigs, spelling: 'snake' })
  return {
    files: found.files.length,
    domains: new Set(read.configs.map(({ domain }) => domain)).size,
    problems: [...read.problems, ...judged.problems],
    warnings: [...read.warnings, ...judged.warnings],
  }
}

export const configCheckHelp = (
  program: string,
) => `Usage: ${program} --config-dir DIR [--merge-domain-configs]

Reads every *.yaml and *.yml file of the rate limit service below DIR and reports all problems of all of them,
each with its file, its field and the allowed values. The service rejects a folder with a problem. Valid
settings that are probably unintended are reported as warnings.

  --config-dir DIR          the folder that the service reads; -config_dir is the same
  --merge-domain-configs    allow several files to share a domain, as MERGE_DOMAIN_CONFIG=true does; also
                            -merge_domain_configs

Exit code: 0 when all files are valid, 1 when there is a problem or DIR cannot be read, 2 for invalid options.

Examples:
  ${program} --config-dir /srv/runtime_data/current/config
  ${program} -config_dir limits -merge_domain_configs
`

/** The reference's flags follow Go's conventions: one dash or two, with `_` in the names. */
const referenceFlag = /^--?(config[_-]dir|merge[_-]domain[_-]configs)(?:=(.*))?$/s

/**
 * Parses the command line.
 *
 * @throws Error for invalid arguments.
 */
export function parseConfigCheckArgs(args: readonly string[]): { folder: string; merge: boolean } {
  const { values } = parseArgs({
    args: args.flatMap(rewriteFlag),
    options: {
      'config-dir': { type: 'string' },
      'merge-domain-configs': { type: 'boolean', default: false },
    },
  })
  const { 'config-dir': folder, 'merge-domain-configs': merge } = values
  if (!folder) throw new Error('name the folder with --config-dir')
  return { folder: folder.replace(/(?<=.)\/+$/, ''), merge }
}

function rewriteFlag(arg: string): readonly string[] {
  const [, flag, value] = referenceFlag.exec(arg) ?? []
  if (flag === undefined) return [arg]
  const name = `--${flag.replaceAll('_', '-')}`
  if (name === '--config-dir') return [value === undefined ? name : `${name}=${value}`]
  if (value === undefined || value === 'true') return [name]
  if (value === 'false') return []
  throw new Error(`${name}=${value}: must be true or false`)
}

/** Formats one line for each finding, and a summary. */
export function formatCheckedFolder({ files, domains, problems, warnings }: CheckedFolder): string {
  const lines = [
    ...problems.map(formatProblem),
    ...warnings.map(warning => `warning: ${formatProblem(warning)}`),
    problems.length === 0
      ? `all rate limit configs ok: ${counted(files, 'file')}, ${counted(domains, 'domain')}`
      : counted(problems.length, 'problem'),
  ]
  return `${lines.join('\n')}\n`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

function main(args: readonly string[]): number {
  const program = 'node services/ratelimit/config-check.ts'
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(configCheckHelp(program))
    return 0
  }
  try {
    const { folder, merge } = parseConfigCheckArgs(args)
    const checked = checkConfigFolder(folder, merge)
    process.stdout.write(formatCheckedFolder(checked))
    return checked.problems.length === 0 ? 0 : 1
  } catch (error) {
    process.stderr.write(
      `config-check: ${printable((error as Error).message)}\n--help shows how it is called\n`,
    )
    return 2
  }
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2))
