import { format } from 'node:util'
import type { Log } from './log.ts'

/**
 * The level of each method of `console`. Errors become warnings, because a call that fails because of one
 * logs an error itself.
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
 * Redirects what libraries print to `console`, and Node's warnings, to the log: readers of the log could not
 * parse them.
 */
export function logStrayOutput(log: Log): void {
  for (const [method, level] of Object.entries(levels)) {
    console[method as keyof typeof levels] = (...parts: unknown[]) =>
      log[level]('report library output', { text: format(...parts) })
  }
  // Node's own listener would print to standard error.
  process.removeAllListeners('warning')
  process.on('warning', warning => {
    const { name, message } = warning
    const code = (warning as NodeJS.ErrnoException).code
    log.warn('report Node warning', { name, ...(code !== undefined && { code }), reason: message })
  })
}
