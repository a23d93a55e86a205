import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { SecretForbiddenError } from '../../../kinds/source.ts'
import { operatorName } from '../../../workloads/cluster-names.ts'
import { isUnauthorized } from '../api/api-error.ts'
import type { KubeClient } from '../api/client.ts'
import { secretAccess } from '../api/secrets.ts'

/** Accesses Secrets of other namespaces. Each namespace decides whether the operator may use its Secrets. */
export type GrantedSecrets = ReturnType<typeof createGrantedSecrets>

export function createGrantedSecrets(
  client: KubeClient,
  config: Pick<ClusterConfig, 'name' | 'watchNamespaces'>,
  ownNamespace: string,
) {
  /**
   * Runs the operation, and settles as it does. If a right is missing, rejects with a `SecretForbiddenError`
   * that says how to grant it.
   */
  async function attempt<Result>(
    namespace: string,
    name: string,
    operation: () => Promise<Result>,
  ): Promise<Result> {
    try {
      return await operation()
    } catch (error) {
      if (!isUnauthorized(error)) throw error
      const message = `the operator may not use the Secret ${namespace}/${name}`
      const command = grantCommand(config, ownNamespace, namespace)
      const advice = `An administrator of the namespace grants it with: ${command}`
      throw new SecretForbiddenError(message, advice)
    }
  }

  return {
    attempt,
    /** Resolves with the entries of a Secret; undefined if it does not exist. Rejects as `attempt` does. */
    read: (namespace: string, name: string, signal: AbortSignal) =>
      attempt(namespace, name, async () => {
        return (await secretAccess(client, { namespace }).get(name, signal))?.data
      }),
  }
}

/** Returns the command that binds the chart's role for Secrets to the operator's account in one namespace. */
function grantCommand(
  { name, watchNamespaces }: Pick<ClusterConfig, 'name' | 'watchNamespaces'>,
  ownNamespace: string,
  namespace: string,
): string {
  const account = operatorName(name)
  // The chart names its own RoleBinding after the role. This name differs, so that both can exist.
  const binding = `${ownNamespace}-${account}`
  const kind = watchNamespaces.length === 0 ? 'clusterrole' : 'role'
  return [
    `kubectl create rolebinding ${binding}`,
    `--namespace=${namespace}`,
    `--${kind}=${ownNamespace}-${name}-secrets`,
    `--serviceaccount=${ownNamespace}:${account}`,
  ].join(' ')
}
