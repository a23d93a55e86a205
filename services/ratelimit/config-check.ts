import { parseArgs } from 'node:util'
import { findFiles } from './feeds/find-files.ts'
import { readFiles } from './feeds/read-files.ts'
import type { Problem } from './rules/config.ts'
import { formatProblem } from './rules/format-problem.ts'
import { printable } from './rules/printable.ts'
import { validate } from './rules/validate.ts'

/** What a folder of configuration files is worth. */
export interface CheckedFolder {
  readonly files: number
  readonly domains: number
  /** All of all files, each with the file's path. A service with any of them keeps what it had in force. */
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** Judges every configuration file below a folder as the service does with RUNTIME_WATCH_ROOT=false. */
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
each with its file, its field, and what is allowed: what is wrong here is refused by the service. What is
right but hardly meant is told as a warning.

  --config-dir DIR          the folder that the service reads; -config_dir is the same
  --merge-domain-configs    files may share a domain, as with MERGE_DOMAIN_CONFIG=true; also
                            -merge_domain_configs

Exit code: 0 when all is right, 1 when there is a problem or DIR cannot be read, 2 for options that are none.

Examples:
  ${program} --config-dir /srv/runtime_data/current/config
  ${program} -config_dir limits -merge_domain_configs
`

/** The reference's flags are Go's, with one dash or two and with `_`. */
const referenceFlag = /^--?(config[_-]dir|merge[_-]domain[_-]configs)(?:=(.*))?$/s

/**
 * What a call of the program asks for.
 *
 * @throws Error for what is not understood.
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

/** What is printed of a folder: a line for each finding, and how it went. */
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
