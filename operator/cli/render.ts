import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { dump } from 'js-yaml'

export const formats = ['table', 'yaml', 'json'] as const
export type Format = (typeof formats)[number]

/** Renders a value as indented JSON or as YAML, with a line break at the end. */
export function render(value: unknown, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : dump(value, { lineWidth: 110 })
}

/** Renders rows in aligned columns under a heading, with control characters in the cells escaped. */
export function renderTable(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [heading, ...rows].map(row => row.map(escapeControls))
  const widths = heading.map((_, column) =>
    all.reduce((max, row) => Math.max(max, row[column]?.length ?? 0), 0),
  )
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return `${all.map(line).join('\n')}\n`
}
