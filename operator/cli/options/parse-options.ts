import { parseArgs } from 'node:util'
import { UsageError } from '../command.ts'
import { nearestName } from './nearest-name.ts'
import type { Options, OptionValues } from './option.ts'

/**
 * Parses the arguments of a command by its table of options.
 *
 * @throws UsageError that names an unknown or invalid argument
 */
export function parseOptions<const Table extends Options>(
  args: readonly string[],
  options: Table,
  allowPositionals = false,
): { readonly values: OptionValues<Table>; readonly positionals: readonly string[] } {
  const { values, positionals } = parseTexts(args, options, allowPositionals)
  const read = Object.entries(options).map(([name, option]) => {
    const found = values[name]
    if (found === undefined) return [name, option.fallback]
    const texts = found.map(String)
    try {
      return [name, option.read(texts)]
    } catch (error) {
      throw new UsageError(`--${name} ${texts.at(-1)}: ${(error as Error).message}`)
    }
  })
  return { values: Object.fromEntries(read), positionals }
}

/**
 * Parses the arguments of a command whose further options depend on where the command finds what it shows.
 * The values of these are not typed.
 */
export function parseWithSource<const Table extends Options>(
  args: readonly string[],
  own: Table,
  source: Options,
  allowPositionals = false,
) {
  const all: Options = { ...own, ...source }
  const { values, positionals } = parseOptions(args, all, allowPositionals)
  return { values: values as OptionValues<Table>, sourceValues: values, positionals }
}

interface ParsedTexts {
  readonly values: Readonly<Record<string, readonly (string | boolean)[] | undefined>>
  readonly positionals: readonly string[]
}

function parseTexts(args: readonly string[], options: Options, allowPositionals: boolean): ParsedTexts {
  const configs = Object.entries(options).map(([name, { placeholder, short }]) => {
    const type = placeholder === '' ? ('boolean' as const) : ('string' as const)
    return [name, { type, multiple: true as const, ...(short !== undefined && { short }) }] as const
  })
  try {
    const parsed = parseArgs({
      args: [...args],
      options: Object.fromEntries(configs),
      allowPositionals,
      strict: true,
    })
    return { values: parsed.values, positionals: parsed.positionals }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const unknown = /^Unknown option '(-[^']*)'/.exec(message)?.[1]
    if (code !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION' || unknown === undefined) throw new UsageError(message)
    throw new UsageError(describeUnknown(unknown, options))
  }
}

function describeUnknown(unknown: string, options: Options): string {
  const names = Object.keys(options)
  const nearest = unknown.startsWith('--') ? nearestName(unknown.slice(2), names) : undefined
  if (nearest !== undefined) return `${unknown}: there is no such option; did you mean --${nearest}?`
  return `${unknown}: there is no such option; there are ${names.map(name => `--${name}`).join(', ')}`
}

/** @throws UsageError without a value */
export function required(name: string, value: string | undefined): string {
  if (value === undefined) throw new UsageError(`${name} is missing`)
  return value
}
