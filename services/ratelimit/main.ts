import { readFileSync } from 'node:fs'
import { runUntilStopped } from '@tollway/chassis/lifecycle.ts'
import { createLog } from '@tollway/chassis/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { startService } from './service.ts'
import { notSupported, settings } from './settings.ts'

const read = readSettings(settings, process.env, path => readFileSync(path, 'utf8'))
if ('problems' in read) {
  for (const { name, message } of read.problems) process.stderr.write(`${name}: ${message}\n`)
  process.exit(1)
}
for (const [name, value] of Object.entries(process.env)) {
  if (!value || value === 'false' || value === '0' || !notSupported.some(pattern => pattern.test(name)))
    continue
  process.stderr.write(
    `${name}: this version does not support the setting; take it out to go on without it\n`,
  )
  process.exit(1)
}
const { logLevel, logFormat } = read.value
const log = createLog({ level: logLevel === 'warning' ? 'warn' : logLevel, format: logFormat })
const started = startService(read.value, log)
runUntilStopped({
  async stop(reason) {
    log.info('stopping', { reason })
    await (await started).stop()
  },
  onFatal: error => log.error('ended by a defect', { error: (error as Error).stack ?? String(error) }),
})
started.catch(error => {
  log.error((error as Error).message)
  process.exit(1)
})
