import { isObject } from '@tollway/chassis/is-object.ts'
import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { folderSecrets } from '../../environments/host/secrets.ts'
import { collectionPath, objectPath } from '../../environments/kubernetes/api/client.ts'
import { customResource } from '../../environments/kubernetes/api/custom-resources.ts'
import type { KubeObject } from '../../environments/kubernetes/api/kube-object.ts'
import type { RouteSecrets, SecretReference } from '../../kinds/animation-stream-route/route-secrets.ts'
import type { SourcedResource } from '../../kinds/source.ts'
import type { DiffTarget } from '../compare-resources.ts'
import { type FolderContent, openKinds } from '../read-folder.ts'
import { createSource } from '../run-program.ts'
import { readCluster } from './cluster-sources.ts'
import { type Cluster, clusterOptions, MissingRightError, openCluster } from './open-cluster.ts'

const secretResource = { group: '', version: 'v1', plural: 'secrets', namespaced: true }

/**
 * The API server adds the defaults of wanted resources in a dry run. The dry run replaces a resource, because
 * an apply would keep the fields of other field managers.
 */
export const clusterTarget = createSource(clusterOptions, async (values, output): Promise<DiffTarget> => {
  const cluster = await openCluster(values)
  const resources = await readCluster(cluster, values.namespace)
  const withResources = async (list: readonly SourcedResource[]): Promise<FolderContent> => ({
    folder: 'the cluster',
    resources: list,
    problems: [],
    unread: [],
    kinds: openKinds(list, await readSecretNames(cluster, list)),
    memoriesOf: () => new Map(),
  })
  let isWarned = false
  return {
    content: await withResources(resources),
    withResources,
    async completeSpec(wanted, current) {
      try {
        return await dryRun(cluster, wanted, current)
      } catch (error) {
        if (!(error instanceof MissingRightError)) throw error
        if (!isWarned)
          output.printError(`compared without the defaults of the API server: ${error.message}\n`)
        isWarned = true
        return wanted.spec
      }
    },
  }
})

async function dryRun(cluster: Cluster, wanted: SourcedResource, current: SourcedResource | undefined) {
  const { kind, namespace, name, spec } = wanted
  const definition = resourceKinds.find(each => each.kind === kind)
  if (definition === undefined) return spec
  const resource = customResource(definition)
  const place = { namespace, name }
  const stored = current === undefined ? undefined : await cluster.get(resource, place)
  const { resourceVersion } = stored?.metadata ?? {}
  const metadata = { ...place, ...(resourceVersion !== undefined && { resourceVersion }) }
  const object: KubeObject = { apiVersion, kind, metadata, spec }
  const answer =
    stored === undefined
      ? await cluster.dryRun('POST', resource, collectionPath(resource, namespace), object)
      : await cluster.dryRun('PUT', resource, objectPath(resource, place), object)
  return answer['spec']
}

/** Reads which of the Secrets exist that routes name, but not their contents. */
async function readSecretNames(
  cluster: Cluster,
  resources: readonly SourcedResource[],
): Promise<RouteSecrets> {
  const inFolder = folderSecrets({ list: () => resources, onChange() {} })
  const isInFolder = ({ namespace, secret }: SecretReference) =>
    resources.some(one => one.kind === 'Secret' && one.namespace === namespace && one.name === secret)
  const states = new Map<string, 'exists' | 'missing' | MissingRightError>()
  for (const { kind, namespace, spec } of resources) {
    if (kind !== animationStreamRouteKind.kind) continue
    for (const name of findSecretNames(spec)) {
      const key = `${namespace}/${name}`
      if (!states.has(key)) states.set(key, await checkSecret(cluster, { namespace, name }))
    }
  }
  const known = ({ namespace, secret }: SecretReference) => {
    const state = states.get(`${namespace}/${secret}`)
    if (state === 'exists') return undefined
    return state instanceof MissingRightError
      ? { forbidden: state.message }
      : ({ missing: 'does not exist' } as const)
  }
  return {
    follow: async () => {},
    onChange() {},
    tokens: place =>
      isInFolder(place) ? inFolder.tokens(place) : (known(place) ?? { hashes: [unknownHash] }),
    signing: place => (isInFolder(place) ? inFolder.signing(place) : (known(place) ?? { secrets: [] })),
  }
}

/** Stands for the tokens of a Secret, whose contents are not read. */
const unknownHash = new Uint8Array(32)

async function checkSecret(cluster: Cluster, key: { readonly namespace: string; readonly name: string }) {
  try {
    return (await cluster.get(secretResource, key)) === undefined ? 'missing' : 'exists'
  } catch (error) {
    if (error instanceof MissingRightError) return error
    throw error
  }
}

function findSecretNames(value: unknown): readonly string[] {
  if (!isObject(value)) return Array.isArray(value) ? value.flatMap(findSecretNames) : []
  return Object.entries(value).flatMap(([field, inner]) =>
    /[sS]ecretRef$/.test(field) && isObject(inner) ? [`${inner['name']}`] : findSecretNames(inner),
  )
}
