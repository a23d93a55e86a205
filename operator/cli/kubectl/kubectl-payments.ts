import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type ClusterValues, clusterOptions, kubectlFlags } from '../cluster/cluster-options.ts'
import { findServicePods } from '../cluster/find-tollway.ts'
import { type Command, exitCodes } from '../command.ts'
import { payments } from '../commands/payments.ts'
import { takeOptions } from '../options/take-options.ts'
import { withCluster } from './cluster-sources.ts'
import { requireRightsOf } from './kubectl-rights.ts'

/** `tollway payments` in a pod of the payments service, which has the settings of the database. */
export const kubectlPayments: Command = {
  ...payments,
  options: clusterOptions,
  help: {
    usage: [
      'verify | payout [--period NAME] [--merchant ID] | exceptions',
      'dispute raise TRANSACTION --amount MINOR_UNITS | dispute win|lose DISPUTE',
      'exception retry ID | exception close ID --note TEXT',
    ],
    description: `\
Runs a command of tollway payments in a pod of the payments service, which has the address of the database.
It needs the rights to list and get pods, and to create pods/exec, in the namespace of the operator.
tollway payments --help describes the actions.`,
    exitCodes: '0 done, 1 the books do not add up or the action was rejected, 2 the action could not run.',
    examples: ['kubectl tollway payments verify', 'kubectl tollway payments payout --period 2026-07'],
  },
  async run(args) {
    const { taken, rest } = takeOptions(args, clusterOptions)
    const values: ClusterValues = taken
    const { name, namespace } = await withCluster({ ...values }, async cluster => {
      const [pod] = await findServicePods(cluster, 'payments', values['tollway-namespace'])
      await requireRightsOf('exec', cluster, pod)
      return pod
    })
    const container = ['-n', namespace, 'exec', name, '-c', 'payments']
    const call = [...kubectlFlags(values), ...container, '--', 'payments', ...rest]
    const child = spawn('kubectl', call, { stdio: 'inherit' })
    const [code] = (await once(child, 'exit')) as [number | null]
    return code ?? exitCodes.failed
  },
}
