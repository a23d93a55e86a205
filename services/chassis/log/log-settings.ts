import { oneOf, type SettingKind, type SettingValues, settingsTable } from '../settings.ts'
import type { LogLevel } from './log.ts'

const levelWord = oneOf('trace', 'debug', 'info', 'warn', 'warning', 'error', 'fatal', 'panic')

/** Levels of logrus (envoyproxy/ratelimit) that this log lacks, and the level used instead. */
const nearest: Readonly<Record<string, LogLevel>> = {
  trace: 'debug',
  warning: 'warn',
  fatal: 'error',
  panic: 'error',
}

const level: SettingKind<LogLevel> = {
  allowed: levelWord.allowed,
  parse: value => {
    const word = levelWord.parse(value)
    return word && (nearest[word] ?? (word as LogLevel))
  },
}

/** @param help the description of LOG_LEVEL for the documentation */
export function logSettings(
  defaultLevel: LogLevel,
  help = 'The minimum level of log lines. `trace` means `debug`; `fatal` and `panic` mean `error`.',
) {
  return settingsTable({
    logLevel: {
      name: 'LOG_LEVEL',
      kind: level,
      fallback: defaultLevel,
      help,
    },
    logFormat: {
      name: 'LOG_FORMAT',
      kind: oneOf('text', 'json'),
      fallback: 'text',
      help: 'The format of log lines.',
    },
  })
}

export type LogSettings = SettingValues<ReturnType<typeof logSettings>>
