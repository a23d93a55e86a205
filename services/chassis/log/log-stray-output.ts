import { format } from 'node:util'
import type { Log } from './log.ts'

/** The level of a library's output. Its errors are warnings: the failed call reports its own error. */
const levels = {
  debug: 'debug',
  log: 'info',
  info: 'info',
  warn: 'warn',
  error: 'warn',
  trace: 'warn',
} as const

/**
 * Redirects the output of libraries and Node's warnings to the log, for the rest of the process. Otherwise
 * these lines reach standard error in a form that no reader of the log parses.
 */
export function logStrayOutput(log: Log): void {
  for (const [method, level] of Object.entries(levels)) {
    console[method as keyof typeof levels] = (...parts: unknown[]) =>
      log[level]('report library output', { text: format(...parts) })
  }
  // Node's own listener prints each warning.
  process.removeAllListeners('warning')
  process.on('warning', warning => {
    const { name, message } = warning
    const code = (warning as NodeJS.ErrnoException).code
    log.warn('report Node warning', { name, ...(code !== undefined && { code }), reason: message })
  })
}
