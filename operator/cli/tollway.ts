import { runCommand } from './run-command.ts'
import { runInTerminal } from './run-in-terminal.ts'

await runInTerminal(runCommand)
