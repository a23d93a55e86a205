import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { runUntilStopped, showSignsOfLife } from '@tollway/chassis/lifecycle.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { logStrayOutput } from '@tollway/chassis/log/log-stray-output.ts'
import { findIneffective, readSettings } from '@tollway/chassis/settings.ts'
import { type Service, startService } from './service.ts'
import { type Settings, settings } from './settings.ts'
import { startSupervisor } from './workers/supervisor.ts'
import { createWorkerLink } from './workers/worker-link.ts'
import { logOfWorker } from './workers/worker-log.ts'
import { findWorkerProblems, settingsOfWorker } from './workers/worker-settings.ts'

const read = readSettings(settings, process.env, path => readFileSync(path, 'utf8'))
const problems = 'problems' in read ? read.problems : findWorkerProblems(read.value)
for (const { name, message } of problems) process.stderr.write(`${name}: ${message}\n`)
if (problems.length > 0 || 'problems' in read) process.exit(1)

/** The supervisor starts each worker with `main.ts worker <index>`. */
const workerIndex = process.argv[2] === 'worker' ? Number(process.argv[3]) : undefined
const { logLevel, logFormat } = read.value
const ownLog = createLog({ level: logLevel, format: logFormat })
const log = workerIndex === undefined ? ownLog : logOfWorker(ownLog, workerIndex)
let service: Service | undefined
logStrayOutput(log)
if (workerIndex === undefined) {
  for (const { name, reason } of findIneffective(settings, process.env)) log.warn(`ignore ${name}: ${reason}`)
}
showSignsOfLife()
runUntilStopped({
  async stop(reason) {
    log.info('stopping', { reason })
    // The service is undefined while it waits for its first configuration, which may never arrive.
    await service?.stop()
  },
  // Logs only the stack: the fields of a driver's error can contain sent data, including a password.
  onFatal: error => {
    log.error('exit: internal error', { error: error instanceof Error ? error.stack : String(error) })
  },
})
try {
  await start(read.value)
} catch (error) {
  log.error('start: failed', { reason: (error as Error).message })
  process.exit(1)
}

async function start(values: Settings): Promise<void> {
  if (workerIndex !== undefined) {
    const link = createWorkerLink(process)
    service = await startService(settingsOfWorker(values, workerIndex), log, link)
  } else if (values.workers > 1) {
    const supervisor = await startSupervisor(values, log, forkWorker)
    service = supervisor
    await supervisor.started
  } else service = await startService(values, log)
}

/** Starts the same program with the same options of Node and the same environment. */
function forkWorker(index: number): ChildProcess {
  return fork(process.argv[1] ?? '', ['worker', String(index)])
}
