import { runService } from '@tollway/chassis/run-service.ts'
import { describeError } from './describe-error.ts'
import { startService } from './service.ts'
import { settings } from './settings.ts'

// With arguments, such as `verify`, this program runs an administrative command and not the service; see
// `runAdmin`.
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
  // Creating an embedded database blocks this thread for some seconds.
  startBlocks: true,
  describeError,
  start: (values, log) =>
    startService(values, log, {
      provisionTokenFile: settingFile(settings.provisionToken),
      payPageSecretFile: settingFile(settings.payPageSecret),
    }),
})
