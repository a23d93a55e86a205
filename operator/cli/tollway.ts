import { runInTerminal } from './run-in-terminal.ts'
import { runCommand } from './tollway-program.ts'

await runInTerminal(runCommand)
