import { parseArgs } from 'node:util'
import { nearestName } from '../nearest-name.ts'
import { UsageError } from './command.ts'
import type { Options, OptionValues } from './option.ts'

/**
 * Accepts the spellings of kubectl: `--output json`, `--output=json`, `-o json`, `-o=json` and `-ojson`.
 *
 * @throws UsageError that names the unknown, invalid or unexpected argument
 */
export function parseOptions<const Table extends Options>(
  args: readonly string[],
  options: Table,
  allowPositionals = false,
): { readonly values: OptionValues<Table>; readonly positionals: readonly string[] } {
  const { given, positionals } = readArguments(args, options)
  const [unexpected] = positionals
  if (unexpected !== undefined && !allowPositionals)
    throw new UsageError(`unexpected argument ${JSON.stringify(unexpected)}`)
  const values = Object.entries(options).map(([name, option]) => {
    const texts = given.get(name)
    if (texts === undefined) return [name, option.fallback]
    try {
      return [name, option.read(texts)]
    } catch (error) {
      throw new UsageError(`--${name} ${texts.at(-1)}: ${(error as Error).message}`)
    }
  })
  return { values: Object.fromEntries(values), positionals }
}

/**
 * Parses the options of a command together with the options of its data source. `sourceValues` has the values
 * of both, without types.
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

function readArguments(args: readonly string[], options: Options) {
  const configs = Object.entries(options).map(([name, { placeholder, short }]) => {
    const type = placeholder === '' ? ('boolean' as const) : ('string' as const)
    return [name, { type, ...(short !== undefined && { short }) }] as const
  })
  const { tokens, positionals } = parseArgs({
    args: [...args],
    options: Object.fromEntries(configs),
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const given = new Map<string, readonly string[]>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (option === undefined) throw new UsageError(describeUnknown(token.rawName, options))
    const text = option.placeholder === '' ? (token.value ?? 'true') : requireValue(token)
    given.set(token.name, [...(given.get(token.name) ?? []), text])
  }
  return { given, positionals }
}

interface OptionToken {
  readonly name: string
  /** The name as the user wrote it: `-o` or `--output`. */
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

/**
 * If the next argument looks like an option (`-x`), the value was probably forgotten. A negative number is a
 * value.
 */
function requireValue({ name, rawName, value, inlineValue }: OptionToken): string {
  if (value === undefined) throw new UsageError(`option ${rawName} requires a value`)
  if (inlineValue) return rawName.startsWith('--') ? value : value.replace(/^=/, '')
  if (!/^-\D/.test(value)) return value
  throw new UsageError(
    `option ${rawName} requires a value; a value that begins with "-" is written --${name}=${value}`,
  )
}

function describeUnknown(unknown: string, options: Options): string {
  const name = unknown.replace(/^--?/, '')
  const names = unknown.startsWith('--') ? Object.keys(options) : []
  const nearest = nearestName(name, names) ?? names.find(one => one.startsWith(name))
  return `unknown option ${unknown}${nearest === undefined ? '' : ` (did you mean --${nearest}?)`}`
}

/**
 * @param name with its dashes, and with the placeholder of its value if that helps the user
 * @throws UsageError if the value is undefined
 */
export function requireOption<Value>(name: string, value: Value | undefined): Value {
  if (value === undefined) throw new UsageError(`missing option ${name}`)
  return value
}
