import { makeRules, type Permission, permissions } from '../api/permissions.ts'

export interface Role {
  readonly apiVersion: 'rbac.authorization.k8s.io/v1'
  readonly kind: 'ClusterRole' | 'Role'
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules: ReturnType<typeof makeRules>
}

export interface RolePlaces {
  readonly name: string
  readonly ownNamespace: string
  readonly watchedNamespaces: 'all' | readonly string[]
  /** The namespaces that granted their Secrets. */
  readonly grantedNamespaces: 'all' | readonly string[]
  /** Whether the payments service runs; false by default. */
  readonly payments?: boolean
}

/**
 * Returns the roles that the operator needs: a Role for its own namespace; a ClusterRole for reviews, which
 * have no namespace; and one role each for watched resources and for granted Secrets. The last two are a
 * ClusterRole if they apply to all namespaces, or a Role in each named namespace.
 */
export function makeRoles(places: RolePlaces, list: readonly Permission[] = permissions): readonly Role[] {
  const { name, ownNamespace, watchedNamespaces, grantedNamespaces, payments = false } = places
  const role = (kind: Role['kind'], scope: Permission['scope'], metadata: Role['metadata']): Role => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata,
    rules: [...makeRules(scope, { list }), ...(payments ? makeRules(scope, { list, only: 'payments' }) : [])],
  })
  const rolesIn = (scope: Permission['scope'], suffix: string, namespaces: 'all' | readonly string[]) =>
    namespaces === 'all'
      ? [role('ClusterRole', scope, { name: `${name}-${suffix}` })]
      : namespaces.map(namespace => role('Role', scope, { name: `${name}-${suffix}`, namespace }))
  return [
    role('Role', 'own', { name: `${name}-workloads`, namespace: ownNamespace }),
    ...rolesIn('watched', 'resources', watchedNamespaces),
    ...rolesIn('granted', 'secrets', grantedNamespaces),
    role('ClusterRole', 'cluster', { name: `${name}-reviews` }),
  ]
}
