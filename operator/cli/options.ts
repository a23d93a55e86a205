import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { dump } from 'js-yaml'
import { UsageError } from './command.ts'

export const formats = ['table', 'yaml', 'json'] as const
export type Format = (typeof formats)[number]

/** Parses a command's arguments strictly; what is not understood is a `UsageError` that names it. */
export function parseOptions<const Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Options,
  allowPositionals = false,
) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals, strict: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

export function parseFormat(text: string | undefined, fallback: Format): Format {
  if (text === undefined) return fallback
  const format = formats.find(name => name === text)
  if (format === undefined) throw new UsageError(`-o ${text}: must be one of ${formats.join(', ')}`)
  return format
}

/** A value as JSON or YAML, for programs. */
export function render(value: unknown, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : dump(value, { lineWidth: 110 })
}

/** Rows under a heading, in columns. */
export function renderTable(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [heading, ...rows]
  const widths = heading.map((_, column) => Math.max(...all.map(row => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return `${all.map(line).join('\n')}\n`
}
