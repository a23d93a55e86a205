import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { serviceNames } from '../../../model.ts'

/** The number of ConfigMaps for one kind. Together they can hold more than the feed can carry. */
const objectsOfKind = 16

/**
 * Returns the names of the ConfigMaps with last good contents, without the installation's name. They are
 * fixed, so that RBAC can name them.
 */
export function lastGoodObjectNames(plural: string): readonly string[] {
  return Array.from({ length: objectsOfKind }, (_, index) => `last-good-${plural}-${index}`)
}

/** A permission that the operator needs in RBAC, and why. The chart's roles are generated from these. */
export interface Permission {
  readonly group: string
  /** A subresource has the name of its resource before it: `deployments/status`. */
  readonly resource: string
  readonly verbs: readonly Verb[]
  /**
   * Where the permission applies. `watched`: in the namespaces whose custom resources the operator watches,
   * all or some. `granted`: in the namespaces that granted their Secrets. `own`: in the operator's namespace,
   * which has its workloads. `cluster`: for resources without a namespace.
   */
  readonly scope: 'watched' | 'granted' | 'own' | 'cluster'
  /**
   * The names of the only objects to which it applies, without the installation's name: `ca` for
   * `tollway-ca`.
   */
  readonly names?: readonly string[]
  /** The service that needs the permission; left out if it is always needed. */
  readonly only?: 'payments'
  readonly why: string
}

type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete'

const reflect = ['get', 'list', 'watch'] as const
/**
 * The verbs of a write. They include `create`, because a server-side apply of a missing object needs that
 * right.
 */
const write = ['create', 'patch', 'delete'] as const

/** The Secrets that the operator creates for itself and its services, without the installation's name. */
export const ownSecretNames = ['ca', 'feed-server', 'feed-client', 'payments'] as const

/**
 * A role can limit a list or a watch only by name, not by labels. Therefore the rights to read cover all
 * objects of the kind, and only those to write are limited to `names`.
 */
const ownChildren = (
  group: string,
  resource: string,
  why: string,
  names: readonly string[] = serviceNames,
): readonly Permission[] => [
  { group, resource, verbs: reflect, scope: 'own', why },
  { group, resource, verbs: write, scope: 'own', names, why },
]

const customResource = (resource: string): readonly Permission[] => [
  { group: apiGroup, resource, verbs: reflect, scope: 'watched', why: 'the desired state' },
  {
    group: apiGroup,
    resource: `${resource}/status`,
    verbs: ['patch'],
    scope: 'watched',
    why: 'the observed state',
  },
]

export const permissions: readonly Permission[] = [
  ...customResource('ratelimitconfigs'),
  ...customResource('animationstreamroutes'),
  ...customResource('merchants'),
  {
    group: apiGroup,
    resource: 'merchants',
    // RBAC cannot limit a right to one field. A policy of the chart rejects changes of the spec.
    verbs: ['patch'],
    scope: 'watched',
    why: 'the finalizer that keeps a Merchant until its merchant is closed',
  },
  {
    group: '',
    resource: 'secrets',
    // Secrets are read by the name that a resource gives. The operator never lists or watches tenants'
    // Secrets.
    verbs: ['get'],
    scope: 'granted',
    why: 'the tokens of routes and the secrets that sign webhooks',
  },
  {
    group: '',
    resource: 'secrets',
    // A policy of the chart limits these writes to Secrets with the operator's label.
    verbs: ['create', 'update'],
    scope: 'granted',
    only: 'payments',
    why: 'the credentials of merchants',
  },
  {
    group: 'events.k8s.io',
    resource: 'events',
    verbs: ['create'],
    scope: 'watched',
    why: 'reports what was done, beside the resource',
  },
  {
    group: 'events.k8s.io',
    resource: 'events',
    verbs: ['create'],
    scope: 'own',
    why: 'reports what happens to the objects of the services',
  },
  ...ownChildren('apps', 'deployments', 'the services'),
  ...ownChildren('', 'services', 'the addresses of the services', [
    ...serviceNames,
    ...serviceNames.map(workload => `${workload}-http`),
    'broker-admin',
  ]),
  ...ownChildren('', 'serviceaccounts', 'the identities of the services, which have no rights'),
  ...ownChildren('policy', 'poddisruptionbudgets', 'no drain evicts all replicas at once'),
  ...ownChildren('autoscaling', 'horizontalpodautoscalers', 'more replicas under load'),
  ...ownChildren('networking.k8s.io', 'networkpolicies', 'who may reach the services'),
  {
    group: '',
    resource: 'secrets',
    // Each list and each watch selects a single name.
    verbs: ['get', 'list', 'watch', 'patch'],
    scope: 'own',
    names: ownSecretNames,
    why: 'the certificates of the feed, and what the payments pods share',
  },
  {
    group: '',
    resource: 'secrets',
    // RBAC does not see the name in a create request. A policy of the chart limits the names and the type.
    verbs: ['create'],
    scope: 'own',
    why: 'the same Secrets, when they do not exist',
  },
  {
    group: '',
    resource: 'configmaps',
    verbs: ['get'],
    scope: 'own',
    names: ['operator'],
    why: 'the object that owns everything that the operator creates',
  },
  {
    group: '',
    resource: 'configmaps',
    verbs: ['get', 'update', 'delete'],
    scope: 'own',
    names: ['ratelimitconfigs', 'animationstreamroutes'].flatMap(lastGoodObjectNames),
    why: 'the last good versions of resources',
  },
  {
    group: '',
    resource: 'configmaps',
    verbs: ['create'],
    scope: 'own',
    why: 'the same ConfigMaps, when they do not exist',
  },
  {
    group: '',
    resource: 'pods',
    verbs: reflect,
    scope: 'own',
    why: 'which replicas are ready, and which acknowledge the feed',
  },
  {
    group: 'coordination.k8s.io',
    resource: 'leases',
    verbs: ['get', 'watch', 'update'],
    scope: 'own',
    names: ['operator'],
    why: 'which operator writes',
  },
  {
    group: 'coordination.k8s.io',
    resource: 'leases',
    verbs: ['create'],
    scope: 'own',
    why: 'the same Lease, when it does not exist',
  },
  {
    group: 'authentication.k8s.io',
    resource: 'tokenreviews',
    verbs: ['create'],
    scope: 'cluster',
    why: 'who calls the API of the operator',
  },
  {
    group: 'authorization.k8s.io',
    resource: 'subjectaccessreviews',
    verbs: ['create'],
    scope: 'cluster',
    why: 'what callers of the API of the operator may do',
  },
]

interface RbacRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly Verb[]
}

interface RuleChoice {
  /**
   * The installation whose name `Permission.names` get as a prefix; left out, the rules apply to any name.
   */
  readonly installation?: string | undefined
  /** Selects the permissions of this service; left out, those that are always needed. */
  readonly only?: Permission['only']
  readonly list?: readonly Permission[]
}

export function makeRules(
  scope: Permission['scope'],
  { installation, only, list = permissions }: RuleChoice = {},
): readonly RbacRule[] {
  const chosen = list.filter(permission => permission.scope === scope && permission.only === only)
  return toRules(chosen, installation)
}

function toRules(list: readonly Permission[], installation: string | undefined): readonly RbacRule[] {
  const named = list.map(permission => ({
    ...permission,
    resourceNames: prefixNames(permission, installation),
  }))
  const alike = ({ group, verbs, resourceNames }: (typeof named)[number]) =>
    JSON.stringify([group, verbs, resourceNames])
  return [...Map.groupBy(named, alike).values()].flatMap(group => {
    const [first] = group
    if (first === undefined) return []
    const { resourceNames } = first
    return [
      {
        apiGroups: [first.group],
        resources: group.map(({ resource }) => resource),
        ...(resourceNames && { resourceNames }),
        verbs: first.verbs,
      },
    ]
  })
}

function prefixNames({ names }: Permission, installation: string | undefined): readonly string[] | undefined {
  return installation === undefined ? undefined : names?.map(name => `${installation}-${name}`)
}
