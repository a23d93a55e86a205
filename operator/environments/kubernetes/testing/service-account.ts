import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import type { ApiAnswer, KubeApiServer } from '../../../../test/support/kube-api-server.ts'
import { accessInCluster, type KubeApiAccess } from '../api/access.ts'
import { type Permission, permissions } from '../api/permissions.ts'
import { makeRoles } from './make-roles.ts'

/** The address of a test's API server, and the authority of its certificate. */
export interface ServerAddress {
  readonly host: string
  readonly port: number
  readonly ca: string
}

export async function addressOf(api: KubeApiServer): Promise<ServerAddress> {
  const { body } = await api.call('GET', '/api')
  const { serverAddressByClientCIDRs: addresses } = body as {
    serverAddressByClientCIDRs: { serverAddress: string }[]
  }
  const [host = '', port = ''] = addresses[0]?.serverAddress.split(':') ?? []
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { issuerCertificate } = socket.getPeerCertificate(true)
  socket.destroy()
  const der = issuerCertificate.raw.toString('base64')
  const ca = `-----BEGIN CERTIFICATE-----\n${der}\n-----END CERTIFICATE-----\n`
  return { host, port: Number(port), ca }
}

/** The right to use ConfigMaps as objects of tests. */
const configMapRight: Permission = {
  group: '',
  resource: 'configmaps',
  verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'],
  scope: 'own',
  why: 'tests',
}

/** Creates the operator's account with its roles in the namespace. Resolves with a token. */
export async function makeOperatorAccount(api: KubeApiServer, namespace: string): Promise<string> {
  const ensure = async (path: string, object: unknown) => {
    const answer = await api.call('POST', path, object)
    if (answer.status !== 201 && answer.status !== 409) throw new Error(`${path}: ${describe(answer)}`)
    return answer
  }
  await ensure('/api/v1/namespaces', { metadata: { name: namespace } })
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`
  await ensure(accounts, { metadata: { name: 'tollway' } })
  const own = { name: namespace, ownNamespace: namespace }
  const all = { watchedNamespaces: 'all', grantedNamespaces: 'all' } as const
  const places = { ...own, ...all, payments: true }
  for (const role of makeRoles(places, [...permissions, configMapRight])) {
    const { kind, metadata } = role
    const place = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`
    const rbac = `/apis/rbac.authorization.k8s.io/v1${place}`
    await ensure(`${rbac}/${kind.toLowerCase()}s`, role)
    await ensure(`${rbac}/${kind.toLowerCase()}bindings`, {
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: 'tollway', namespace }],
    })
  }
  return newToken(api, namespace)
}

export async function newToken(api: KubeApiServer, namespace: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/tollway/token`
  const answer = await api.call('POST', path, { spec: { expirationSeconds: 3_600 } })
  if (answer.status !== 201) throw new Error(`${path}: ${describe(answer)}`)
  return (answer.body as { status: { token: string } }).status.token
}

function describe({ status, body }: ApiAnswer): string {
  return `${status} ${JSON.stringify(body)}`
}

/** Writes the files that the kubelet mounts into a pod of the operator. Returns access through them. */
export function writeServiceAccount(
  folder: string,
  { ca, host, port }: ServerAddress,
  account: { readonly namespace: string; readonly token: string },
): KubeApiAccess {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'ca.crt'), ca)
  writeFileSync(join(folder, 'namespace'), account.namespace)
  writeFileSync(join(folder, 'token'), account.token, { mode: 0o600 })
  return accessInCluster({ KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: `${port}` }, folder)
}

/** Returns access with the account's token through an HTTP proxy of the test. */
export function accessThrough(
  proxyUrl: string,
  account: { namespace: string; token: string },
): KubeApiAccess {
  const credentials = { headers: { authorization: `Bearer ${account.token}` }, tls: {} }
  return { server: new URL(proxyUrl), namespace: account.namespace, credentials: async () => credentials }
}
