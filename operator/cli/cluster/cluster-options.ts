import { aFile, noValues, text } from '@tollway/chassis/command-line/option.ts'
import type { SourceValues } from '../source-of-command.ts'

/** The options of kubectl that every command of `kubectl tollway` takes. */
export const clusterOptions = {
  context: text({ placeholder: 'NAME', help: 'the context of the kubeconfig', completion: noValues }),
  kubeconfig: text({
    placeholder: 'FILE',
    help: 'the kubeconfig (default: KUBECONFIG, or ~/.kube/config)',
    completion: aFile,
  }),
  namespace: text({
    short: 'n',
    placeholder: 'NAME',
    help: 'the namespace of the resources (default: all namespaces)',
  }),
  as: text({ placeholder: 'USER', help: 'the user to impersonate' }),
  'tollway-namespace': text({
    placeholder: 'NAME',
    help: 'the namespace of the operator (default: the one in which its pods are found)',
  }),
}

export interface ClusterValues {
  readonly context: string | undefined
  readonly kubeconfig: string | undefined
  readonly namespace: string | undefined
  readonly as: string | undefined
  readonly 'tollway-namespace': string | undefined
}

/** The values of `clusterOptions` among those of a command. */
export const clusterValuesOf = (values: SourceValues) => values as unknown as ClusterValues

/** The flags with which kubectl reaches the same cluster as the same user. */
export function kubectlFlags({ context, kubeconfig, as }: ClusterValues): readonly string[] {
  return Object.entries({ context, kubeconfig, as }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  )
}
