import { oneOf, type SettingKind, type SettingValues, settingsTable } from '../settings.ts'
import type { LogLevel } from './log.ts'

const levelWord = oneOf('trace', 'debug', 'info', 'warn', 'warning', 'error', 'fatal', 'panic')

/** Levels of the reference's logger that this log does not have. */
const nearest: Readonly<Record<string, LogLevel>> = {
  trace: 'debug',
  warning: 'warn',
  fatal: 'error',
  panic: 'error',
}

/** Accepts every spelling of logrus, in any letter case. */
const level: SettingKind<LogLevel> = {
  allowed: levelWord.allowed,
  parse: value => {
    const word = levelWord.parse(value)
    return word && (nearest[word] ?? (word as LogLevel))
  },
}

/**
 * The settings of a process's log; `createLog` takes the values.
 *
 * @param defaultLevel the level when none is set
 * @param help the description of the level
 */
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
