import { readFileSync } from 'node:fs'
import { runUntilStopped, showSignsOfLife } from '@tollway/chassis/lifecycle.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { logStrayOutput } from '@tollway/chassis/log/log-stray-output.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { describeError } from './describe-error.ts'
import { type Service, startService } from './service.ts'
import { settings } from './settings.ts'

// `payments verify` in a container of the service: what an operator does by hand, see `admin.ts`.
const command = process.argv.slice(2)
if (command.length > 0) {
  const { runAdmin } = await import('./admin/run-admin.ts')
  const print = (text: string) => void process.stdout.write(text)
  const printError = (text: string) => void process.stderr.write(text)
  process.exit(await runAdmin(command, process.env, { print, printError }))
}

const read = readSettings(settings, process.env, path => readFileSync(path, 'utf8'))
if ('problems' in read) {
  for (const { name, message } of read.problems) process.stderr.write(`${name}: ${message}\n`)
  process.exit(1)
}

const { logLevel, logFormat } = read.value
const log = createLog({ level: logLevel, format: logFormat })
let service: Service | undefined
logStrayOutput(log)
runUntilStopped({
  async stop(reason) {
    log.info('stopping', { reason })
    await service?.stop()
  },
  onFatal: error => log.error('exit: internal error', { error: describeError(error) }),
})
try {
  const fileOf = ({ name }: { readonly name: string }) => process.env[`${name}_FILE`] || undefined
  service = await startService(read.value, log, {
    provisionTokenFile: fileOf(settings.provisionToken),
    payPageSecretFile: fileOf(settings.payPageSecret),
  })
  // Not before: a new embedded database takes seconds, in which this thread does nothing else.
  showSignsOfLife()
} catch (error) {
  log.error('start: failed', { reason: (error as Error).message })
  process.exit(1)
}
