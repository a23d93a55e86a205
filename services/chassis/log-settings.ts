import type { LogLevel } from './log.ts'
import { type Kind, oneOf, settingsTable, type Values } from './settings.ts'

const levelWord = oneOf('debug', 'info', 'warn', 'warning', 'error')

/** The reference takes `warning` for `warn`, too. */
const level: Kind<LogLevel> = {
  allowed: levelWord.allowed,
  parse: value => {
    const word = levelWord.parse(value)
    return word === 'warning' ? 'warn' : word
  },
}

/**
 * What a process logs, and how; `createLog` takes the values.
 *
 * @param defaultLevel what is logged where nobody says otherwise.
 * @param help of the level, for the documentation.
 */
export function logSettings(defaultLevel: LogLevel, help = 'What is logged.') {
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
