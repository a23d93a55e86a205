import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { Workload } from '../../../../translated-types.ts'

/** Fields of the pod that exist only at run time. */
const ownFields = {
  POD_IP: 'status.podIP',
  POD_NAME: 'metadata.name',
  POD_NAMESPACE: 'metadata.namespace',
  POD_UID: 'metadata.uid',
} as const

/**
 * The identity of a replica in the feed, the same variables as those of the host provider. The kubelet sets
 * their values.
 */
const feedIdentity = {
  CONFIG_GRPC_XDS_NODE_ID: '$(POD_NAME)',
  CONFIG_GRPC_XDS_NODE_METADATA: 'pod:$(POD_NAME),uid:$(POD_UID),namespace:$(POD_NAMESPACE)',
} as const

/**
 * Returns the workload's settings, by their names, and the variables of `extraEnv`, which replace settings of
 * the same name. The pod's own fields are before them, because a variable can only be cited after it; neither
 * settings nor `extraEnv` can replace these.
 */
export function makeEnv(
  { env, service }: Pick<Workload, 'env' | 'service'>,
  { extraEnv }: Pick<PodShape, 'extraEnv'>,
) {
  const own = Object.entries(ownFields).map(([name, fieldPath]) => {
    return { name, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } } }
  })
  const literal = Object.entries(env).map(([name, value]) => [name, escapeReferences(value)])
  const identity = service === 'payments' ? {} : feedIdentity
  const settings: Record<string, string> = { ...identity, ...Object.fromEntries(literal) }
  const extra = extraEnv
    .map(variable => ({ ...variable, name: `${variable['name']}` }))
    .filter(({ name }) => !(name in ownFields))
  const replaced = new Set(extra.map(({ name }) => name))
  const given = Object.entries(settings)
    .filter(([name]) => !(name in ownFields) && !replaced.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value }))
  return [...own, ...given, ...extra]
}

/** Escapes a setting, so that the kubelet does not replace `$(NAME)` in it, nor `$$` by `$`. */
function escapeReferences(value: string): string {
  return value.replaceAll('$', '$$$$')
}
