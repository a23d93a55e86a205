import { format } from 'node:util'
import type { Log } from './log.ts'

/**
 * The log level for each method of `console`. An error that a library prints is a warning here: the call that
 * fails because of it logs its own error.
 */
const levels = {
  debug: 'debug',
  log: 'info',
  info: 'info',
  warn: 'warn',
  error: 'warn',
  trace: 'warn',
} as const

/**
 * Redirects what libraries print to `console`, and Node's warnings, to the log for the rest of the process.
 * Printed to standard error, these lines would not have the format that readers of the log parse.
 */
export function logStrayOutput(log: Log): void {
  for (const [method, level] of Object.entries(levels)) {
    console[method as keyof typeof levels] = (...parts: unknown[]) =>
      log[level]('report library output', { text: format(...parts) })
  }
  // Node's own listener would print each warning to standard error.
  process.removeAllListeners('warning')
  process.on('warning', warning => {
    const { name, message } = warning
    const code = (warning as NodeJS.ErrnoException).code
    log.warn('report Node warning', { name, ...(code !== undefined && { code }), reason: message })
  })
}
