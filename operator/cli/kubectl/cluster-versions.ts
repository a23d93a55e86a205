import { versionAnnotation } from '@tollway/crds/generation/definition-files.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { isNotFound } from '../../environments/kubernetes/api/api-error.ts'
import { podResource } from '../../environments/kubernetes/infrastructure/kinds.ts'
import { labelNames } from '../../environments/kubernetes/infrastructure/objects/installation.ts'
import type { StatusReport } from '../../status/status-report.ts'
import type { Installed, InstalledPart } from '../commands/version.ts'
import { createSource } from '../run-program.ts'
import { maxReportBytes, withCluster } from './cluster-sources.ts'
import {
  findOperatorPods,
  listContainers,
  operatorPort,
  pagePath,
  type TollwayPod,
  toPod,
} from './find-tollway.ts'
import { type Cluster, clusterOptions } from './open-cluster.ts'

const definitionResource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  namespaced: false,
}

export const clusterVersions = createSource(clusterOptions, values =>
  withCluster(values, async (cluster): Promise<Installed> => {
    const problems: string[] = []
    const listed = async <T>(list: Promise<readonly T[]>): Promise<readonly T[]> => {
      try {
        return await list
      } catch (error) {
        problems.push((error as Error).message)
        return []
      }
    }
    const operators = await listed(findOperatorPods(cluster, values['tollway-namespace']))
    const [{ namespace } = { namespace: undefined }] = operators
    const labelSelector = `${labelNames.partOf}=tollway`
    const pods =
      namespace === undefined ? [] : await listed(cluster.listAll(podResource, { namespace, labelSelector }))
    const services = pods.map(toPod).filter(({ component }) => component !== 'operator' && component !== '')
    return {
      operators: await Promise.all(operators.map(pod => readOperatorPart(cluster, pod))),
      services: services.map(toPart).sort((a, b) => (a.name < b.name ? -1 : 1)),
      definitions: await listed(Promise.all(resourceKinds.map(({ plural }) => definition(cluster, plural)))),
      problems,
    }
  }),
)

/** The version of a pod is the tag of its image. An image that is named by a digest has none. */
function toPart(pod: TollwayPod): InstalledPart {
  const { name, component } = pod
  const containers = listContainers(pod)
  const { image = '' } = containers.find(container => container.name === component) ?? containers[0] ?? {}
  const tag = /:([\w.-]+)(?:@.*)?$/.exec(image.replace(/@.*$/, ''))?.[1]
  return { name, image, ...(tag !== undefined && { version: tag }) }
}

/**
 * Reads the version of an operator from its status page. If the page has none, as in older versions, or the
 * user may not read it, the version is that of the image.
 */
async function readOperatorPart(cluster: Cluster, pod: TollwayPod): Promise<InstalledPart> {
  try {
    const page = await cluster.getText(pagePath(pod, operatorPort(pod), '/status'), maxReportBytes)
    const { version } = JSON.parse(page) as StatusReport
    return { ...toPart(pod), ...(version !== undefined && { version }) }
  } catch {
    return toPart(pod)
  }
}

async function definition(cluster: Cluster, plural: string): Promise<InstalledPart> {
  const name = `${plural}.${apiGroup}`
  try {
    const found = await cluster.get(definitionResource, { name })
    const version = found?.metadata.annotations?.[versionAnnotation]
    return { name, ...(version !== undefined && { version }) }
  } catch (error) {
    if (!isNotFound(error)) throw error
    return { name }
  }
}
