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

/** A table of settings that includes those of `logSettings`. */
type Table = Record<string, Setting<unknown>> & ReturnType<typeof logSettings>

/** The main program of a service. */
interface ServiceProgram<Settings extends Table> {
  readonly settings: Settings
  /** Returns the problems of settings that do not fit together; none when left out. */
  findProblems?(values: SettingValues<Settings>): readonly SettingProblem[]
  /** Returns the log of this process, given that of the settings. */
  wrapLog?(log: Log): Log
  /** Starts the service. Rejects with an Error that says why it cannot start. */
  start(values: SettingValues<Settings>, log: Log): Promise<RunningService>
  /** Describes an unexpected error for the log. Defaults to its stack. */
  describeError?(error: unknown): string
  /** The start blocks the event loop for seconds, so that signs of life begin only after it. */
  readonly startBlocks?: boolean
}

export interface RunningService {
  /** Resolves when the service has started, if `start` resolves before that. Rejects as `start` does. */
  readonly started?: Promise<void>
  stop(): Promise<void>
}

/**
 * Runs a service until a signal or the end of its parent process stops it. Exits with code 0 then, with 78
 * when a setting is not allowed (one line for each on standard error), and with 1 when the service cannot
 * start, and after an unexpected error.
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
      // The service is undefined while it waits for its first configuration, which may never arrive.
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

/** Only the stack: the fields of a driver's error can contain sent data, including a password. */
function describeStack(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
