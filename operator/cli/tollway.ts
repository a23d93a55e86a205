import { runInTerminal } from './run-program.ts'
import { runTollway } from './tollway-program.ts'

await runInTerminal(runTollway)
