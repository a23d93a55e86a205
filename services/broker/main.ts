import { readFileSync } from 'node:fs'
import { runUntilStopped, showSignsOfLife } from '@tollway/chassis/lifecycle.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { logStrayOutput } from '@tollway/chassis/log/log-stray-output.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { type Service, startService } from './service.ts'
import { settings } from './settings.ts'

const read = readSettings(settings, process.env, path => readFileSync(path, 'utf8'))
if ('problems' in read) {
  for (const { name, message } of read.problems) process.stderr.write(`${name}: ${message}\n`)
  process.exit(1)
}

const { logLevel, logFormat } = read.value
const log = createLog({ level: logLevel, format: logFormat })
let service: Service | undefined
logStrayOutput(log)
showSignsOfLife()
runUntilStopped({
  async stop(reason) {
    log.info('stopping', { reason })
    // A process that waits for its first routes serves no calls, and may wait forever.
    await service?.stop()
  },
  // Only the stack: the fields of a driver's error can contain the data that it sent, including a password.
  onFatal: error => {
    log.error('exit: internal error', { error: error instanceof Error ? error.stack : String(error) })
  },
})
try {
  service = await startService(read.value, log)
} catch (error) {
  log.error('start: failed', { reason: (error as Error).message })
  process.exit(1)
}
