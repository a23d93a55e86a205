import { readFileSync } from 'node:fs'
import { runUntilStopped, showSignsOfLife } from './lifecycle.ts'
import { createLog, type Log } from './log/log.ts'
import type { LogSettings, logSettings } from './log/log-settings.ts'
import { logStrayOutput } from './log/log-stray-output.ts'
import {
  readSettings,
  type Setting,
  type SettingProblem,
  type SettingValues,
  settingsExitCode,
} from './settings.ts'

type Table = Record<string, Setting<unknown>> & ReturnType<typeof logSettings>

interface ServiceProgram<Settings extends Table> {
  readonly settings: Settings
  /** Returns the problems of settings that are valid alone but not together. */
  findProblems?(values: SettingValues<Settings>): readonly SettingProblem[]
  /** Returns the log to use instead of the one that LOG_LEVEL and LOG_FORMAT define. */
  wrapLog?(log: Log): Log
  /** Rejects with an Error that says why the service cannot start. */
  start(values: SettingValues<Settings>, log: Log): Promise<RunningService>
  /** Describes an unexpected error for the log. Defaults to the stack. */
  describeError?(error: unknown): string
  /**
   * True if `start` blocks the event loop for seconds. Signs of life begin only after it: a parent process
   * kills a process that stops sending them.
   */
  readonly startBlocks?: boolean
}

export interface RunningService {
  /** Resolves when the service has started, if later than `start`. Rejects like `start`. */
  readonly started?: Promise<void>
  stop(): Promise<void>
}

/**
 * Runs a service until a signal or the end of its parent process stops it. The exit code is 0 then; 78 for
 * invalid settings, each with a line on standard error; and 1 when the service cannot start, or after an
 * unexpected error.
 */
export async function runService<Settings extends Table>(program: ServiceProgram<Settings>): Promise<void> {
  const values = readValues(program)
  const { logLevel, logFormat } = values as LogSettings
  const ownLog = createLog({ level: logLevel, format: logFormat })
  const log = program.wrapLog?.(ownLog) ?? ownLog
  const { describeError = describeStack } = program
  let service: RunningService | undefined
  logStrayOutput(log)
  if (!program.startBlocks) showSignsOfLife()
  runUntilStopped({
    async stop(reason) {
      log.info('stop service', { reason })
      // `start` may wait for a first configuration that never arrives.
      await service?.stop()
    },
    onFatal: error => log.error('run service failed', { error: describeError(error) }),
  })
  try {
    service = await program.start(values, log)
    await service.started
  } catch (error) {
    log.error('start service failed', { reason: (error as Error).message })
    process.exit(1)
  }
  if (program.startBlocks) showSignsOfLife()
}

function readValues<Settings extends Table>({
  settings,
  findProblems = () => [],
}: ServiceProgram<Settings>): SettingValues<Settings> {
  const read = readSettings(settings, process.env, path => readFileSync(path, 'utf8'))
  const problems = 'problems' in read ? read.problems : findProblems(read.value)
  for (const { name, message } of problems) process.stderr.write(`${name}: ${message}\n`)
  if (problems.length > 0 || 'problems' in read) process.exit(settingsExitCode)
  return read.value
}

/**
 * Returns only the stack: other fields of a database driver's error can contain sent data, even a password.
 */
function describeStack(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
