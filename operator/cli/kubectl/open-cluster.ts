import { aFile, noValues, type OptionValues, optionalText } from '@tollway/chassis/command-line/option.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import {
  accessFromEnvironment,
  accessFromKubeconfig,
  type KubeApiAccess,
} from '../../environments/kubernetes/api/access.ts'
import { connectionError, KubeApiError, statusError } from '../../environments/kubernetes/api/api-error.ts'
import { KubeCaller } from '../../environments/kubernetes/api/caller.ts'
import {
  collectionPath,
  createKubeClient,
  type KubeClient,
  type Selection,
} from '../../environments/kubernetes/api/client.ts'
import type { ApiResource, KubeObject } from '../../environments/kubernetes/api/kube-object.ts'
import { createTransport, readWholeBody } from '../../environments/kubernetes/api/transport.ts'

/**
 * Calls are made with the rights of a user. One for which the user lacks the right rejects with a
 * `MissingRightError`.
 */
export interface Cluster {
  listAll(resource: ApiResource, place: Selection): Promise<readonly KubeObject[]>
  /** Resolves with undefined if the object does not exist. */
  get: KubeClient['get']
  /** Rejects if the text is longer than `maxBytes`. */
  getText(path: string, maxBytes: number): Promise<string>
  /** Resolves with the object as it would be stored. */
  dryRun(method: 'POST' | 'PUT', resource: ApiResource, path: string, body: KubeObject): Promise<KubeObject>
  requireRight(right: NamespacedRight): Promise<void>
  /** Resolves with undefined if the user authenticates by other means. */
  token(): Promise<string | undefined>
  close(): void
}

/** A right in a namespace, such as `get` on `pods` or `create` on `pods/exec`. */
interface NamespacedRight {
  readonly verb: string
  readonly resource: string
  readonly subresource?: string
  readonly namespace: string
}

const pageSize = 500
const maxObjects = 50_000
const answerMs = 20_000

/** Opens the cluster that the options name, without calling it yet. */
export async function openCluster(
  values: Pick<ClusterValues, 'context' | 'kubeconfig' | 'as'>,
): Promise<Cluster> {
  const access = impersonate(await readAccess(values), values.as)
  const options = { random: Math.random }
  const client = createKubeClient(access, options)
  const caller = new KubeCaller(access, options)
  const transport = createTransport(access)
  const explainErrors = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer
    } catch (error) {
      throw explainMissingRight(error)
    }
  }
  return {
    listAll: (resource, place) => explainErrors(listAll(client, resource, place)),
    get: (resource, key) => explainErrors(client.get(resource, key)),
    getText: (path, maxBytes) => explainErrors(getText(path, maxBytes)),
    async dryRun(method, resource, path, body) {
      const query = 'dryRun=All&fieldManager=kubectl-tollway'
      return (await explainErrors(
        caller.call({ resource, method, path: `${path}?${query}`, body }),
      )) as KubeObject
    },
    requireRight: right => explainErrors(requireRight(caller, right)),
    async token() {
      const { headers } = await access.credentials()
      return /^Bearer (.+)$/.exec(headers['authorization'] ?? '')?.[1]
    },
    close() {
      client.close()
      caller.close()
      transport.close()
    },
  }

  async function getText(path: string, maxBytes: number): Promise<string> {
    const call = `GET ${path.replace(/\?.*/, '')}`
    const headers = { accept: '*/*' }
    const signal = AbortSignal.timeout(answerMs)
    try {
      const response = await transport.open({ method: 'GET', path, headers, signal })
      const text = await readWholeBody(response, call, maxBytes)
      if (response.statusCode === 200) return text
      throw statusError(call, response.statusCode ?? 0, parseJson(text) ?? text)
    } catch (error) {
      throw connectionError(call, signal.aborted ? new Error(`no end within ${answerMs} ms`) : error)
    }
  }
}

/** The API server permits a self review to every user. @throws MissingRightError */
async function requireRight(caller: KubeCaller, resourceAttributes: NamespacedRight): Promise<void> {
  const access = await review(caller, 'authorization.k8s.io', 'SelfSubjectAccessReview', {
    spec: { resourceAttributes },
  })
  if (access['allowed'] === true) return
  const { userInfo } = await review(caller, 'authentication.k8s.io', 'SelfSubjectReview', {})
  const user = isObject(userInfo) ? `${userInfo['username']}` : 'the account'
  const { verb, resource, subresource, namespace } = resourceAttributes
  const what = subresource === undefined ? resource : `${resource}/${subresource}`
  throw new MissingRightError(`${user} lacks the right to ${verb} ${what} in the namespace ${namespace}`)
}

async function review(caller: KubeCaller, group: string, kind: string, body: object) {
  const resource = { group, version: 'v1', plural: `${kind.toLowerCase()}s`, namespaced: false }
  const path = collectionPath(resource, undefined)
  const object = { apiVersion: `${group}/v1`, kind, ...body }
  const { status } = await caller.call({ resource, method: 'POST', path, body: object })
  return isObject(status) ? status : {}
}

async function listAll(
  client: KubeClient,
  resource: ApiResource,
  place: Selection,
): Promise<readonly KubeObject[]> {
  const items: KubeObject[] = []
  let more: string | undefined
  do {
    const page = await client.list(resource, { ...place, limit: pageSize, continue: more })
    items.push(...page.items)
    more = page.continue
  } while (more !== undefined && items.length < maxObjects)
  return items
}

async function readAccess({ context, kubeconfig }: Pick<ClusterValues, 'context' | 'kubeconfig'>) {
  if (kubeconfig === undefined && context === undefined) return accessFromEnvironment(process.env)
  const { KUBECONFIG = '', HOME = '/' } = process.env
  return accessFromKubeconfig(kubeconfig ?? (KUBECONFIG || `${HOME}/.kube/config`), context)
}

function impersonate(access: KubeApiAccess, user: string | undefined): KubeApiAccess {
  if (user === undefined) return access
  return {
    ...access,
    async credentials() {
      const credentials = await access.credentials()
      return { ...credentials, headers: { ...credentials.headers, 'impersonate-user': user } }
    },
  }
}

/** The message of the API server for a call that the roles of the user do not allow. */
const forbiddenMessage = /User "([^"]*)" cannot ([\w:-]+) resource "([^"]+)" in API group "([^"]*)"/
const namespaceInMessage = /in the namespace "([^"]*)"/

function explainMissingRight(error: unknown): unknown {
  if (!(error instanceof KubeApiError) || error.code !== 403) return error
  const [, user, verb, resource, group = ''] = forbiddenMessage.exec(error.message) ?? []
  const namespace = namespaceInMessage.exec(error.message)?.[1]
  if (user === undefined) return error
  const what = group === '' ? resource : `${resource}.${group}`
  const where = namespace === undefined ? 'in all namespaces' : `in the namespace ${namespace}`
  const option = resource === 'pods' ? '--tollway-namespace NAME' : '-n NAMESPACE'
  const advice = namespace === undefined ? `; for one namespace use ${option}` : ''
  return new MissingRightError(`${user} lacks the right to ${verb} ${what} ${where}${advice}`)
}

/** The message names the account and the right. */
export class MissingRightError extends Error {
  override readonly name = 'MissingRightError'
}

/** The options that select a cluster, with the names of kubectl. */
export const clusterOptions = {
  context: optionalText({ placeholder: 'NAME', help: 'the context of the kubeconfig', completion: noValues }),
  kubeconfig: optionalText({
    placeholder: 'FILE',
    help: 'the kubeconfig (default: KUBECONFIG, or ~/.kube/config)',
    completion: aFile,
  }),
  namespace: optionalText({
    short: 'n',
    placeholder: 'NAME',
    help: 'the namespace of the resources (default: all namespaces)',
  }),
  as: optionalText({ placeholder: 'USER', help: 'the user to impersonate' }),
  'tollway-namespace': optionalText({
    placeholder: 'NAME',
    help: 'the namespace of the operator (default: the one in which its pods are found)',
  }),
}

export type ClusterValues = OptionValues<typeof clusterOptions>

export function kubectlFlags({ context, kubeconfig, as }: ClusterValues): readonly string[] {
  return Object.entries({ context, kubeconfig, as }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  )
}
