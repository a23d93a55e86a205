import type { LogLevel } from './log.ts'
import { type Kind, oneOf, settingsTable, type Values } from './settings.ts'

const levelWord = oneOf('trace', 'debug', 'info', 'warn', 'warning', 'error', 'fatal', 'panic')

/** Levels of the reference's logger for which this log has no lines of their own. */
const nearest: Readonly<Record<string, LogLevel>> = {
  trace: 'debug',
  warning: 'warn',
  fatal: 'error',
  panic: 'error',
}

/** Every spelling of logrus, in any letter case. */
const level: Kind<LogLevel> = {
  allowed: levelWord.allowed,
  parse: value => {
    const word = levelWord.parse(value)
    return word && (nearest[word] ?? (word as LogLevel))
  },
}

/**
 * What a process logs, and how; `createLog` takes the values.
 *
 * @param defaultLevel what is logged where nobody says otherwise.
 * @param help of the level, for the documentation.
 */
export function logSettings(
  defaultLevel: LogLevel,
  help = 'The least level that is logged. `trace` is `debug`; `fatal` and `panic` are `error`.',
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
      help: 'The shape of log lines.',
    },
  })
}

export type LogSettings = Values<ReturnType<typeof logSettings>>
