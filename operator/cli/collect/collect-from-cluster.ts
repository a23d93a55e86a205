import { X509Certificate } from 'node:crypto'
import { isObject } from '@tollway/chassis/is-object.ts'
import { apiGroup, apiVersion } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { isNotFound } from '../../environments/kubernetes/api/api-error.ts'
import { customResource } from '../../environments/kubernetes/api/custom-resources.ts'
import type { ApiResource, KubeObject } from '../../environments/kubernetes/api/kube-object.ts'
import { kinds, podResource } from '../../environments/kubernetes/infrastructure/kinds.ts'
import { labelNames } from '../../environments/kubernetes/infrastructure/objects/installation.ts'
import { withCluster } from '../kubectl/cluster-sources.ts'
import {
  findOperatorPods,
  listContainers,
  operatorPort,
  pagePath,
  type TollwayPod,
  toPod,
} from '../kubectl/find-tollway.ts'
import { type Cluster, clusterOptions, MissingRightError } from '../kubectl/open-cluster.ts'
import { createSource } from '../run-program.ts'
import { Bundle, countProblems } from './bundle.ts'

const maxPageBytes = 32 * 1024 * 1024
const logLines = 20_000
const core = (plural: string) => ({ group: '', version: 'v1', plural, namespaced: true })

export interface CollectScope {
  /** The namespace of the resources; undefined for all namespaces. */
  readonly namespace: string | undefined
  /** The namespace of the operator; undefined to search for it. */
  readonly tollwayNamespace: string | undefined
}

/** The error for a cluster that has neither the kinds of Tollway nor an operator. */
export class NoTollwayError extends Error {
  override readonly name = 'NoTollwayError'
}

/**
 * Adds the resources, objects, pages and logs of Tollway in a cluster.
 *
 * @throws NoTollwayError
 */
export async function collectFromCluster(
  cluster: Cluster,
  bundle: Bundle,
  place: CollectScope,
): Promise<void> {
  const pods = await findPods(cluster, bundle, place)
  await bundle.addObject('versions.json', async () => ({
    kubernetes: JSON.parse(await cluster.getText('/version', maxPageBytes)),
    images: listImages(pods),
  }))
  for (const definition of resourceKinds) {
    const resource = customResource(definition)
    await bundle.addObject(`resources/${definition.plural}.json`, () =>
      cluster.listAll(resource, { namespace: place.namespace }),
    )
  }
  await bundle.addObject('resources/events.json', async () => {
    const fieldSelector = `involvedObject.apiVersion=${apiVersion}`
    return cluster.listAll(core('events'), { namespace: place.namespace, fieldSelector })
  })
  const [operator] = pods.filter(({ component }) => component === 'operator')
  const namespace = place.tollwayNamespace ?? operator?.namespace
  if (namespace === undefined) {
    bundle.leaveOut('objects', 'the namespace of the operator is unknown; name it with --tollway-namespace')
  } else {
    const { [labelNames.instance]: instance } = operator?.object.metadata.labels ?? {}
    await collectObjects(cluster, bundle, { namespace, instance })
    await collectCertificates(cluster, bundle, pods)
  }
  await collectPages(cluster, bundle, pods)
  for (const pod of pods) await collectLogs(cluster, bundle, pod)
}

/**
 * Resolves with the pods, operators first; with an empty list if the account lacks the right to list pods.
 */
async function findPods(
  cluster: Cluster,
  bundle: Bundle,
  place: CollectScope,
): Promise<readonly TollwayPod[]> {
  try {
    const operators = await findOperatorPods(cluster, place.tollwayNamespace)
    const [{ namespace } = { namespace: '' }] = operators
    const labelSelector = `${labelNames.partOf}=tollway`
    const others = (await cluster.listAll(podResource, { namespace, labelSelector })).map(toPod)
    const known = new Set(operators.map(({ name }) => name))
    return [...operators, ...others.filter(({ name }) => !known.has(name))]
  } catch (error) {
    const { message } = error as Error
    if (!(error instanceof MissingRightError) && !(await hasKinds(cluster)))
      throw new NoTollwayError(`${message}, and the kinds of ${apiGroup} do not exist`)
    bundle.leaveOut('pods', message)
    return []
  }
}

async function hasKinds(cluster: Cluster): Promise<boolean> {
  try {
    await cluster.getText(`/apis/${apiVersion}`, maxPageBytes)
    return true
  } catch (error) {
    if (isNotFound(error)) return false
    throw error
  }
}

const listImages = (pods: readonly TollwayPod[]) =>
  pods.map(pod => ({ pod: pod.name, images: listContainers(pod).map(({ image }) => image) }))

interface Installation {
  readonly namespace: string
  /** The name of the Helm release; undefined if no pod of an operator was found. */
  readonly instance: string | undefined
}

/** Adds the objects of the installation. Objects of other programs in the same namespace are left out. */
async function collectObjects(
  cluster: Cluster,
  bundle: Bundle,
  { namespace, instance = 'tollway' }: Installation,
): Promise<void> {
  const belongsToTollway = ({ metadata, involvedObject }: KubeObject) =>
    metadata.labels?.[labelNames.partOf] === 'tollway' ||
    metadata.labels?.[labelNames.instance] === instance ||
    (isObject(involvedObject) && `${involvedObject['name']}`.startsWith(instance))
  const list = async (resource: ApiResource) =>
    (await cluster.listAll(resource, { namespace })).filter(belongsToTollway)
  for (const resource of [...Object.values(kinds), podResource, core('events')]) {
    await bundle.addObject(`objects/${resource.plural}.json`, () => list(resource))
  }
  const configMaps = await bundle.addObject('objects/configmaps.json', () => list(core('configmaps')))
  for (const { metadata, data } of configMaps ?? []) {
    const text = isObject(data) ? data['operator.yaml'] : undefined
    if (typeof text !== 'string') continue
    await bundle.addObject(`settings/${metadata.name}.json`, async () => load(text, { schema: CORE_SCHEMA }))
  }
}

async function collectPages(cluster: Cluster, bundle: Bundle, pods: readonly TollwayPod[]): Promise<void> {
  for (const pod of pods.filter(({ component }) => component === 'operator')) {
    const page = (path: string) => cluster.getText(pagePath(pod, operatorPort(pod), path), maxPageBytes)
    const report = await bundle.addObject(`operators/${pod.name}/status.json`, async () =>
      JSON.parse(await page('/status')),
    )
    if (report !== undefined)
      await bundle.addObject(`operators/${pod.name}/problems.json`, async () => countProblems(report))
    await bundle.addText(`operators/${pod.name}/metrics.txt`, () => page('/metrics'))
  }
}

async function collectLogs(cluster: Cluster, bundle: Bundle, pod: TollwayPod): Promise<void> {
  for (const { name } of listContainers(pod)) {
    const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/log?container=${name}&timestamps=true`
    await bundle.addText(`logs/${pod.name}/${name}.log`, () =>
      cluster.getText(`${path}&tailLines=${logLines}`, maxPageBytes),
    )
  }
}

/** Adds names and dates of the certificates in Secrets that pods mount, and nothing else of these Secrets. */
async function collectCertificates(
  cluster: Cluster,
  bundle: Bundle,
  pods: readonly TollwayPod[],
): Promise<void> {
  const mounted = new Map(
    pods.flatMap(pod =>
      listSecretNames(pod).map(name => [`${pod.namespace}/${name}`, { namespace: pod.namespace, name }]),
    ),
  )
  for (const key of mounted.values()) {
    await bundle.addObject(`certificates/${key.name}.json`, async () => {
      const secret = await cluster.get(core('secrets'), key)
      if (secret === undefined) throw new Error(`the Secret ${key.namespace}/${key.name} does not exist`)
      return parseCertificates(secret)
    })
  }
}

function listSecretNames({ object }: TollwayPod): readonly string[] {
  const spec = isObject(object['spec']) ? object['spec'] : {}
  const volumes = Array.isArray(spec['volumes']) ? spec['volumes'].filter(isObject) : []
  return volumes.flatMap(({ secret }) => (isObject(secret) ? [`${secret['secretName']}`] : []))
}

const certificate = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

function parseCertificates({ data }: KubeObject) {
  const entries = isObject(data) ? Object.entries(data) : []
  return entries.flatMap(([entry, encoded]) => {
    const text = Buffer.from(`${encoded}`, 'base64').toString('utf8')
    return [...text.matchAll(certificate)].map(([pem]) => {
      const { subject, issuer, validFrom, validTo } = new X509Certificate(pem)
      return { entry, subject, issuer, validFrom, validTo }
    })
  })
}

export const clusterBundle = createSource(clusterOptions, values =>
  withCluster(values, async cluster => {
    const { namespace, 'tollway-namespace': tollwayNamespace } = values
    const token = await cluster.token()
    const bundle = new Bundle(token === undefined ? [] : [token])
    await collectFromCluster(cluster, bundle, { namespace, tollwayNamespace })
    return bundle
  }),
)
