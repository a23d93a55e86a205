import type { Command, CommandHelp, CommandOutput } from '@tollway/chassis/command-line/command.ts'
import { type Program, runProgram } from '../run-program.ts'

function forCluster(command: Command, { summary = command.summary, ...help }: HelpForCluster): Command {
  return { ...command, summary, help: { ...command.help, ...help } }
}

type HelpForCluster = Pick<CommandHelp, 'usage' | 'examples'> &
  Partial<CommandHelp> & { readonly summary?: string }

const counted = '--domain D --entries KEY=VALUE[,KEY=VALUE...]'
const sources = () => import('./cluster-sources.ts')

export const kubectlTollway: Program = {
  name: 'kubectl tollway',
  summary: `\
Inspects Tollway in the cluster of the kubeconfig, with the rights of its user.
docs/tasks/inspect-a-cluster.md has the rights that each command needs.`,
  commands: {
    status: async () =>
      forCluster((await import('../commands/status.ts')).createStatus((await sources()).clusterReport), {
        usage: ['[-n NAMESPACE] [--wait SECONDS] [--revision ID] [--except-stalled] [-o FORMAT]'],
        examples: ['kubectl tollway status', 'kubectl tollway status -n shop --wait 30'],
      }),
    validate: async () =>
      forCluster((await import('../commands/validate.ts')).createValidate((await sources()).clusterContent), {
        summary: 'report every problem of the resources of the cluster, or of manifests',
        usage: ['[-n NAMESPACE | -f FOLDER] [-o FORMAT]'],
        description: `\
Reports all problems of all resources of the cluster, or of the manifests in FOLDER, each with its field, what
was found and what is allowed. It does not read Secrets: every Secret that a route names counts as missing.`,
        examples: ['kubectl tollway validate', 'kubectl tollway validate -f limits.yaml -o json'],
      }),
    try: async () =>
      forCluster((await import('../commands/try.ts')).createTry((await sources()).clusterContent), {
        usage: [`${counted} [-n NAMESPACE | -f FOLDER]`],
        description: `\
Shows for each descriptor of a request the rule that it matches, entry by entry, and the limit that applies.
It reads the resources of the cluster and counts nothing. Invalid resources are ignored, also if their last
good version is in force.`,
        examples: ['kubectl tollway try --domain checkout --entries user=alice'],
      }),
    counters: async () =>
      forCluster(
        (await import('../commands/counters.ts')).createCounters((await sources()).clusterOperator),
        {
          usage: [
            ...['get', 'reset'].map(action => `${action} ${counted}`),
            `raise ${counted} --by N`,
            'top --domain D --rule RULE [--by rejected|hits]',
            'tap --domain D [--rule RULE]',
          ],
          examples: [
            'kubectl tollway counters get --domain checkout --entries user=alice',
            'kubectl tollway counters raise -d checkout -e user=alice --by 50 -o json',
          ],
        },
      ),
    whatif: async () =>
      forCluster((await import('../commands/what-if.ts')).createWhatIf((await sources()).clusterOperator), {
        usage: ['-f FILE'],
        examples: ['kubectl tollway whatif -f checkout.yaml'],
      }),
    streams: async () =>
      forCluster((await import('../commands/streams.ts')).createStreams((await sources()).clusterBrokers), {
        usage: ['list [--all] [-o FORMAT]', 'watch [--all] [--every SECONDS]', 'interrupt STREAM [REQUEST]'],
        examples: ['kubectl tollway streams list', 'kubectl tollway streams interrupt session-7 utterance-3'],
      }),
    diff: async () =>
      forCluster(
        (await import('../commands/diff.ts')).createDiff((await import('./cluster-diff.ts')).clusterTarget),
        {
          usage: ['-f FILE [-n NAMESPACE] [--prune] [-o FORMAT]'],
          description: `\
Compares the manifests in FILE with the resources of the cluster, and changes nothing. It prints the resources
that would be created, changed and deleted with their fields, the rules whose limits would change, and new
problems, such as a domain of another resource or a missing Secret. The API server sets defaults in a dry run,
which requires the right to create and update the resources; without it, manifests are compared as written.
The compared fields are those of spec, and the annotations of Tollway.`,
          examples: [
            'kubectl tollway diff -f checkout.yaml',
            'kubectl tollway diff -f limits --prune -o json',
          ],
        },
      ),
    collect: async () =>
      forCluster(
        (await import('../collect/collect.ts')).createCollect(
          (await import('../collect/collect-from-cluster.ts')).clusterBundle,
        ),
        {
          usage: ['[-n NAMESPACE] [--tollway-namespace NAME] [--output-file FILE]'],
          examples: ['kubectl tollway collect', 'kubectl tollway collect --output-file bundle.tar.gz'],
        },
      ),
    payments: async () => (await import('./kubectl-payments.ts')).kubectlPayments,
    version: async () =>
      forCluster(
        (await import('../commands/version.ts')).createVersion(
          (await import('./cluster-versions.ts')).clusterVersions,
        ),
        {
          usage: ['[-o table|yaml|json]'],
          description: `\
Shows the version of this command, and those of the operators, of the pods of each service and of the
definitions in the cluster. The version of a pod is the tag of its image. It requires the rights to list pods
in the namespace of the operator, and to get customresourcedefinitions; without one, the rest is shown.`,
          examples: ['kubectl tollway version', 'kubectl tollway version -o json'],
        },
      ),
  },
}

export function runKubectlTollway(args: readonly string[], output: CommandOutput): Promise<number> {
  return runProgram(kubectlTollway, args, output)
}
