import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { dump } from 'js-yaml'

export const formats = ['table', 'yaml', 'json'] as const
export type Format = (typeof formats)[number]

export function render(value: unknown, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : dump(value, { lineWidth: 110 })
}

/** Aligns the columns, and escapes control characters. */
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
