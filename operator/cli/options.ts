import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { defaultStateDir } from '../environments/host/state-dir.ts'
import { UsageError } from './command.ts'
import { type Format, formats } from './render.ts'

/** Of every command that reads manifests. */
export const folderOptions = {
  file: { type: 'string', short: 'f' },
  'state-dir': { type: 'string', default: defaultStateDir },
  output: { type: 'string', short: 'o' },
} as const

/** What `folderOptions` are, for `--help`. */
export const folderOptionsHelp = `\
  -f, --file FOLDER    the folder or file (default: that of the operator on this machine)
  --state-dir DIR      where that operator keeps its state (default ${defaultStateDir})`

/** Parses a command's arguments strictly. Throws a `UsageError` that names an unknown argument. */
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

const maxWaitSeconds = 86_400

/** A duration in seconds as milliseconds. */
export function parseSeconds(option: string, text: string): number {
  const seconds = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && seconds <= maxWaitSeconds) return seconds * 1000
  throw new UsageError(`${option} ${text}: must be a number of seconds from 0 to ${maxWaitSeconds}`)
}
