import { runInTerminal } from '../run-program.ts'
import { runKubectlTollway } from './run-kubectl-tollway.ts'

await runInTerminal(runKubectlTollway)
