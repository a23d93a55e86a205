import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { apply, kubectl } from './cluster.ts'

/** A rule of a Role: the resources of an API group, and what may be done with them. */
export interface Rule {
  readonly group: string
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

export interface Account {
  /** The name of the account at the API server. */
  readonly user: string
  readonly kubeconfig: string
  readonly token: string
}

const folder = temporaryFolder('accounts')

/** Makes a service account with these rights, by their namespaces, and a kubeconfig with its token. */
export async function makeAccount(
  namespace: string,
  name: string,
  rights: Readonly<Record<string, readonly Rule[]>>,
): Promise<Account> {
  await apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } })
  for (const [place, rules] of Object.entries(rights)) await grant(namespace, name, place, rules)
  const token = (await kubectl('-n', namespace, 'create', 'token', name)).trim()
  const admin = JSON.parse(await kubectl('config', 'view', '--raw', '--minify', '-o', 'json')) as Kubeconfig
  const config = { ...admin, users: admin.users.map(user => ({ ...user, user: { token } })) }
  const kubeconfig = join(folder, name)
  writeFileSync(kubeconfig, JSON.stringify(config), { mode: 0o600 })
  return { user: `system:serviceaccount:${namespace}:${name}`, kubeconfig, token }
}

interface Kubeconfig {
  readonly users: readonly { readonly name: string; readonly user: object }[]
}

async function grant(namespace: string, account: string, place: string, rules: readonly Rule[]) {
  const rbac = 'rbac.authorization.k8s.io'
  const metadata = { name: `test-${account}`, namespace: place }
  const role = {
    apiVersion: `${rbac}/v1`,
    kind: 'Role',
    metadata,
    rules: rules.map(({ group, resources, verbs }) => ({ apiGroups: [group], resources, verbs })),
  }
  const binding = {
    apiVersion: `${rbac}/v1`,
    kind: 'RoleBinding',
    metadata,
    roleRef: { apiGroup: rbac, kind: 'Role', name: metadata.name },
    subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
  }
  await apply({ apiVersion: 'v1', kind: 'List', items: [role, binding] })
}
