import { type ChildProcess, fork } from 'node:child_process'
import type { Log, LogFields } from '@tollway/chassis/log/log.ts'
import { type RunningService, runService } from '@tollway/chassis/run-service.ts'
import { findIneffective } from '@tollway/chassis/settings.ts'
import { startService } from './service.ts'
import { type Settings, settings } from './settings.ts'
import { startSupervisor } from './workers/supervisor.ts'
import { createWorkerLink } from './workers/worker-link.ts'
import { findWorkerProblems, toWorkerSettings } from './workers/worker-settings.ts'

/** Undefined in a process that is no worker. A worker is started with `main.ts worker <index>`. */
const workerIndex = process.argv[2] === 'worker' ? Number(process.argv[3]) : undefined

await runService({
  settings,
  findProblems: findWorkerProblems,
  ...(workerIndex !== undefined && { wrapLog: log => createWorkerLog(log, workerIndex) }),
  start,
})

async function start(values: Settings, log: Log): Promise<RunningService> {
  if (workerIndex !== undefined) {
    return startService(toWorkerSettings(values, workerIndex), log, createWorkerLink(process))
  }
  for (const { name, reason } of findIneffective(settings, process.env))
    log.warn('ignore setting', { name, reason })
  return values.workers > 1 ? startSupervisor(values, log, forkWorker) : startService(values, log)
}

/** Starts a worker: the same program with the same options of Node and the same environment. */
function forkWorker(index: number): ChildProcess {
  return fork(process.argv[1] ?? '', ['worker', String(index)])
}

/** A log whose lines have the number of the worker. */
function createWorkerLog(log: Log, worker: number): Log {
  const withWorker = (fields?: LogFields) => ({ worker, ...fields })
  return {
    debug: (message, fields) => log.debug(message, withWorker(fields)),
    info: (message, fields) => log.info(message, withWorker(fields)),
    warn: (message, fields) => log.warn(message, withWorker(fields)),
    error: (message, fields) => log.error(message, withWorker(fields)),
  }
}
