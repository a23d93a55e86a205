import { runService } from '@tollway/chassis/run-service.ts'
import { describeError } from './describe-error.ts'
import { startService } from './service.ts'
import { settings } from './settings.ts'

// `payments verify` in a container of the service runs an administrative command, see `admin.ts`.
const command = process.argv.slice(2)
if (command.length > 0) {
  const { runAdmin } = await import('./admin/run-admin.ts')
  const print = (text: string) => void process.stdout.write(text)
  const printError = (text: string) => void process.stderr.write(text)
  process.exit(await runAdmin(command, process.env, { print, printError }))
}

const settingFile = ({ name }: { readonly name: string }) => process.env[`${name}_FILE`] || undefined

await runService({
  settings,
  // A new embedded database takes seconds, in which this thread does nothing else.
  startBlocks: true,
  describeError,
  start: (values, log) =>
    startService(values, log, {
      provisionTokenFile: settingFile(settings.provisionToken),
      payPageSecretFile: settingFile(settings.payPageSecret),
    }),
})
