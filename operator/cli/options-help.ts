import type { HostOption } from '../services/host-option.ts'

const column = 34
const width = 108

/** Returns the lines of a help text for the options, each with its default. */
export function optionsHelp(options: readonly HostOption[]): string {
  return options.map(optionHelp).join('\n')
}

function optionHelp({ flag, placeholder, help, fallback }: HostOption): string {
  const isShown = fallback !== '' && typeof fallback !== 'object' && placeholder !== ''
  const words = `${help}${isShown ? ` (default ${fallback})` : ''}`.split(' ')
  const lines = [`  --${flag} ${placeholder}`.padEnd(column - 1)]
  for (const word of words) {
    if ((lines.at(-1) ?? '').length + 1 + word.length > width) lines.push(' '.repeat(column - 1))
    lines.push(`${lines.pop()} ${word}`)
  }
  return lines.join('\n')
}
