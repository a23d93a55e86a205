import { runInTerminal } from '../run-in-terminal.ts'
import { runKubectlTollway } from './run-kubectl-tollway.ts'

await runInTerminal(runKubectlTollway)
