import type { Option } from './option.ts'

const maxColumn = 34
const width = 110

/** Returns the lines of a help text for options and their names, each with its default. */
export function describeOptions(options: readonly (readonly [string, Option])[]): string {
  const starts = options.map(([name, option]) => startOf(name, option))
  const column = Math.min(maxColumn, Math.max(...starts.map(start => start.length)) + 2)
  return options.map(([, option], index) => describeOption(starts[index] ?? '', option, column)).join('\n')
}

function startOf(name: string, { short, placeholder }: Option): string {
  return `  ${short === undefined ? '' : `-${short}, `}--${name} ${placeholder}`.trimEnd()
}

function describeOption(start: string, { help, shownFallback }: Option, column: number): string {
  const shown = shownFallback === '' ? '' : ` (default ${shownFallback})`
  const lines = [start.padEnd(column - 1)]
  for (const word of `${help}${shown}`.split(' ')) {
    if ((lines.at(-1) ?? '').length + 1 + word.length > width) lines.push(' '.repeat(column - 1))
    lines.push(`${lines.pop()} ${word}`)
  }
  return lines.join('\n')
}
