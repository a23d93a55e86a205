/**
 * `node services/payments/admin.ts COMMAND` runs an administrative command on the database that the
 * environment variables select. `tollway payments` starts this program.
 */
import { runAdmin } from './admin/run-admin.ts'

process.exitCode = await runAdmin(process.argv.slice(2), process.env, {
  print: text => process.stdout.write(text),
  printError: text => process.stderr.write(text),
})
