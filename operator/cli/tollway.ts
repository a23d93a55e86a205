import { runInTerminal } from './run-program.ts'
import { runCommand } from './tollway-program.ts'

await runInTerminal(runCommand)
