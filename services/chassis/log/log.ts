import { type DestinationStream, pino } from 'pino'

/**
 * The log of a process, for the people who run it, without secrets.
 *
 * A message is a constant in lower case that names an event: `verb object`, such as `load configuration`, or
 * `verb object failed`. Fields have all that varies: `reason` says why something was done or has failed,
 * `error` is the stack of an internal error.
 */
export interface Log {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export type LogFields = Readonly<Record<string, unknown>>
export const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]

interface LogOptions {
  readonly level: LogLevel
  /** `text`: `time=... level=... msg=...`; `json`: objects with `@timestamp`, `level`, `@message`. */
  readonly format: 'text' | 'json'
  /** Writes a line with its line feed. Defaults to standard error. */
  readonly write?: (line: string) => void
}

/** Both formats are those of envoyproxy/ratelimit. */
export function createLog(options: LogOptions): Log {
  const write = options.write ?? ((line: string) => process.stderr.write(line))
  const destination: DestinationStream =
    options.format === 'json' ? { write } : { write: line => write(textLine(JSON.parse(line))) }
  const logger = pino(
    {
      level: options.level,
      base: null,
      messageKey: '@message',
      timestamp: () => `,"@timestamp":"${new Date().toISOString()}"`,
      formatters: { level: label => ({ level: label }) },
    },
    destination,
  )
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}) =>
      logger[level](fields, message)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function textLine(record: Record<string, unknown>): string {
  const { '@timestamp': time, level, '@message': message, ...fields } = record
  let line = `time=${time} level=${level} msg=${quoted(message)}`
  for (const [name, value] of Object.entries(fields)) line += ` ${name}=${quoted(value)}`
  return `${line}\n`
}

/** Quotes a text only if it contains characters that could be misread. */
function quoted(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return typeof value === 'string' && !/^[\w./:@%+,-]+$/.test(text) ? JSON.stringify(text) : text
}

/** A log for tests, and for commands that print their own output. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }
