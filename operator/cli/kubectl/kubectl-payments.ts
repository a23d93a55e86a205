import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type ClusterValues, clusterOptions, kubectlFlags } from '../cluster/cluster-options.ts'
import { findOperatorPods } from '../cluster/find-tollway.ts'
import { type Command, exitCodes } from '../command.ts'
import { payments } from '../commands/payments.ts'
import { takeOptions } from '../options/take-options.ts'
import { withCluster } from './cluster-sources.ts'

const selector = 'app.kubernetes.io/name=payments,app.kubernetes.io/part-of=tollway'

/** `tollway payments` in a pod of the payments service, which has the settings of the database. */
export const kubectlPayments: Command = {
  ...payments,
  options: clusterOptions,
  help: {
    usage: ['verify|payout|dispute|exceptions|exception [ARGUMENTS]'],
    description: `\\
Runs a command of tollway payments in a pod of the payments service, which has the address of the database.
It needs the right to create pods/exec in the namespace of the operator. tollway payments --help has the
arguments.`,
    exitCodes: '0 done, 1 something does not add up or was refused, 2 it could not be done.',
    examples: ['kubectl tollway payments verify', 'kubectl tollway payments payout --period 2026-07'],
  },
  async run(args) {
    const { taken, rest } = takeOptions(args, clusterOptions)
    const values: ClusterValues = taken
    const namespace =
      values['tollway-namespace'] ??
      (await withCluster(
        { ...values },
        async cluster => (await findOperatorPods(cluster, undefined))[0]?.namespace,
      ))
    const pods = await withCluster({ ...values }, cluster =>
      cluster.listAll(
        { group: '', version: 'v1', plural: 'pods', namespaced: true },
        { namespace, labelSelector: selector },
      ),
    )
    const name = pods[0]?.metadata.name
    if (name === undefined)
      throw new Error(`found no pod of the payments service in the namespace ${namespace}`)
    const call = [...kubectlFlags(values), '-n', `${namespace}`, 'exec', name, '--', 'payments', ...rest]
    const child = spawn('kubectl', call, { stdio: 'inherit' })
    const [code] = (await once(child, 'exit')) as [number | null]
    return code ?? exitCodes.failed
  },
}
