/** What the operator may do, in the words of RBAC, and why. The chart's roles are made of this list alone. */
export interface Permission {
  readonly group: string
  /** `deployments`, or a part of it: `deployments/status`. */
  readonly resource: string
  readonly verbs: readonly Verb[]
  /**
   * Where: in the namespaces whose custom resources are looked at (all of them, or some), or only in the
   * operator's own, where its workloads are.
   */
  readonly scope: 'watched' | 'own'
  /** Only where that service runs. */
  readonly only?: 'payments'
  readonly why: string
}

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete'

const reflect = ['get', 'list', 'watch'] as const
/** An apply that finds nothing creates, and then both verbs are asked for. */
const apply = ['create', 'patch'] as const

const ownChildren = (group: string, resource: string, why: string): Permission => ({
  group,
  resource,
  verbs: [...reflect, ...apply, 'delete'],
  scope: 'own',
  why,
})

const customResource = (resource: string): readonly Permission[] => [
  { group: 'tollway.dev', resource, verbs: reflect, scope: 'watched', why: 'what shall be' },
  {
    group: 'tollway.dev',
    resource: `${resource}/status`,
    verbs: ['patch'],
    scope: 'watched',
    why: 'what is, and why',
  },
]

export const permissions: readonly Permission[] = [
  ...customResource('ratelimitconfigs'),
  ...customResource('animationstreamroutes'),
  ...customResource('merchants'),
  {
    group: 'tollway.dev',
    resource: 'merchants',
    verbs: ['patch'],
    scope: 'watched',
    why: 'its finalizer: one whose merchant is to be closed stays until it is',
  },
  {
    group: '',
    resource: 'secrets',
    // By the name that a resource tells, and never listed or watched.
    verbs: ['get'],
    scope: 'watched',
    why: 'the tokens that open routes, and what webhooks are signed with',
  },
  {
    group: '',
    resource: 'secrets',
    verbs: ['create', 'update'],
    scope: 'watched',
    only: 'payments',
    why: 'the credentials of merchants',
  },
  {
    group: 'events.k8s.io',
    resource: 'events',
    verbs: ['create'],
    scope: 'watched',
    why: 'tells people what was done, beside the resource',
  },
  ownChildren('apps', 'deployments', 'the services'),
  ownChildren('', 'services', 'their addresses'),
  ownChildren('', 'serviceaccounts', 'their identities, which may do nothing'),
  ownChildren('policy', 'poddisruptionbudgets', 'no drain takes all replicas at once'),
  ownChildren('autoscaling', 'horizontalpodautoscalers', 'more replicas under load'),
  ownChildren('networking.k8s.io', 'networkpolicies', 'who may reach them'),
  {
    group: '',
    resource: 'secrets',
    // Never listed or watched: the operator looks at those that it made itself, by their names.
    verbs: ['get', ...apply, 'delete'],
    scope: 'own',
    why: 'the certificates of the feed',
  },
  {
    group: '',
    resource: 'configmaps',
    verbs: ['get'],
    scope: 'own',
    why: 'the object that owns everything that the operator creates',
  },
  {
    group: '',
    resource: 'pods',
    verbs: reflect,
    scope: 'own',
    why: 'which replicas are ready, and who acknowledges the feed',
  },
  {
    group: 'coordination.k8s.io',
    resource: 'leases',
    verbs: ['get', 'create', 'update'],
    scope: 'own',
    why: 'which operator writes',
  },
]

export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly Verb[]
}

export interface Role {
  readonly apiVersion: 'rbac.authorization.k8s.io/v1'
  readonly kind: 'ClusterRole' | 'Role'
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules: readonly PolicyRule[]
}

export interface RolePlaces {
  /** The name of the installation, with which the roles' names begin. */
  readonly name: string
  readonly ownNamespace: string
  readonly watchedNamespaces: 'all' | readonly string[]
  /** Whether the payments service runs. */
  readonly payments?: boolean
}

/** The rules of one scope; those that are there always, or those that come with a service. */
export function makeRules(
  scope: Permission['scope'],
  list: readonly Permission[] = permissions,
  only?: Permission['only'],
): readonly PolicyRule[] {
  return toRules(list.filter(permission => permission.scope === scope && permission.only === only))
}

/**
 * The roles that the operator needs: one for its own namespace, and one for the resources that it watches, a
 * ClusterRole for all namespaces, or else a Role in each of them.
 */
export function makeRoles(places: RolePlaces, list: readonly Permission[] = permissions): readonly Role[] {
  const { name, ownNamespace, watchedNamespaces, payments = false } = places
  const role = (kind: Role['kind'], scope: Permission['scope'], metadata: Role['metadata']): Role => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata,
    rules: [...makeRules(scope, list), ...(payments ? makeRules(scope, list, 'payments') : [])],
  })
  const own = role('Role', 'own', { name: `${name}-workloads`, namespace: ownNamespace })
  const watched = `${name}-resources`
  if (watchedNamespaces === 'all') return [own, role('ClusterRole', 'watched', { name: watched })]
  return [own, ...watchedNamespaces.map(namespace => role('Role', 'watched', { name: watched, namespace }))]
}

/** One rule for the resources of a group that allow the same. */
function toRules(list: readonly Permission[]): readonly PolicyRule[] {
  const grouped = Map.groupBy(list, ({ group, verbs }) => JSON.stringify([group, verbs]))
  return [...grouped.values()].map(alike => ({
    apiGroups: [alike[0]?.group ?? ''],
    resources: alike.map(({ resource }) => resource),
    verbs: alike[0]?.verbs ?? [],
  }))
}
