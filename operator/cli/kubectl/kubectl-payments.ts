import type { Command } from '@tollway/chassis/command-line/command.ts'
import { createPaymentsCommand } from '@tollway/payments/admin/command.ts'
import { runProcess } from '../commands/payments.ts'
import { requirePodRights, withCluster } from './cluster-sources.ts'
import { findServicePods } from './find-tollway.ts'
import { type ClusterValues, clusterOptions, kubectlFlags } from './open-cluster.ts'

/** Runs `tollway payments` in a pod of the payments service, which has the address of the database. */
export const kubectlPayments: Command = {
  ...createPaymentsCommand({
    options: clusterOptions,
    async perform({ args, sourceValues }) {
      const values = sourceValues as ClusterValues
      const { name, namespace } = await withCluster(values, async cluster => {
        const [pod] = await findServicePods(cluster, 'payments', values['tollway-namespace'])
        await requirePodRights('exec', cluster, pod)
        return pod
      })
      const container = ['-n', namespace, 'exec', name, '-c', 'payments']
      return runProcess('kubectl', [...kubectlFlags(values), ...container, '--', 'payments', ...args])
    },
  }),
  help: {
    usage: [
      'verify | payout [--period NAME] [--merchant ID] | exceptions',
      'dispute raise TRANSACTION --amount MINOR_UNITS | dispute win|lose DISPUTE',
      'exception retry ID | exception close ID --note TEXT',
    ],
    description: `\
Runs a command of tollway payments in a pod of the payments service, which has the address of the database.
It requires the rights to list and get pods, and to create pods/exec, in the namespace of the operator.
tollway payments --help describes the subcommands.`,
    exitCodes: '0 done, 1 the books do not add up or the action was rejected, 2 the action could not run.',
    examples: ['kubectl tollway payments verify', 'kubectl tollway payments payout --period 2026-07'],
  },
}
