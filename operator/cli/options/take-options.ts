import { parseArgs } from 'node:util'
import type { Options, OptionValues } from './option.ts'
import { parseOptions } from './parse-options.ts'

/**
 * Separates the options of a table from the other arguments, whose options are not known.
 *
 * @throws UsageError for an option of the table without a value
 */
export function takeOptions<const Table extends Options>(
  args: readonly string[],
  options: Table,
): { readonly taken: OptionValues<Table>; readonly rest: readonly string[] } {
  const configs = Object.entries(options).map(([name, { placeholder, short }]) => {
    const type = placeholder === '' ? ('boolean' as const) : ('string' as const)
    return [name, { type, ...(short !== undefined && { short }) }] as const
  })
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(configs),
    strict: false,
    tokens: true,
  })
  const indexes = tokens.flatMap(token => {
    if (token.kind !== 'option' || !Object.hasOwn(options, token.name)) return []
    return token.value === undefined || token.inlineValue ? [token.index] : [token.index, token.index + 1]
  })
  const isTaken = (index: number) => indexes.includes(index)
  return {
    taken: parseOptions(
      args.filter((_, index) => isTaken(index)),
      options,
    ).values,
    rest: args.filter((_, index) => !isTaken(index)),
  }
}
