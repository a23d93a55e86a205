import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { aFile, optionalText } from '@tollway/chassis/command-line/option.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import type { BrokerAddress } from '../../broker-queries/broker-pages.ts'
import { isNotFound } from '../../environments/kubernetes/api/api-error.ts'
import { customResource } from '../../environments/kubernetes/api/custom-resources.ts'
import { observePods } from '../../environments/kubernetes/infrastructure/observe-pod.ts'
import { reportedMerchants } from '../../environments/kubernetes/merchants.ts'
import { operatorValues } from '../../environments/kubernetes/operators.ts'
import { toSourcedResource } from '../../environments/kubernetes/resources.ts'
import { describeStored, type StoredKind } from '../../environments/kubernetes/status/cluster-report.ts'
import { withAdvice } from '../../environments/kubernetes/status/describe-services.ts'
import type { StoredResource } from '../../environments/kubernetes/status/stored-resource.ts'
import type { SourcedResource } from '../../kinds/source.ts'
import type { StatusReport } from '../../status/status-report.ts'
import type { ReadReport } from '../commands/status.ts'
import type { OperatorAddress } from '../find-operator.ts'
import { type FolderContent, folderSource, openKinds } from '../read-folder.ts'
import { readToken } from '../read-input.ts'
import { createSource } from '../run-program.ts'
import { findOperatorPods, findServicePods, operatorPort, pagePath, type TollwayPod } from './find-tollway.ts'
import { type Cluster, type ClusterValues, clusterOptions, openCluster } from './open-cluster.ts'
import { forwardHttpPort, forwardPort } from './port-forward.ts'

export const maxReportBytes = 64 * 1024 * 1024

export async function withCluster<T>(
  values: ClusterValues,
  use: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const cluster = await openCluster(values)
  try {
    return await use(cluster)
  } finally {
    cluster.close()
  }
}

/**
 * The report of an operator has only the numbers of resources. The resources are those that the user may
 * list.
 */
export const clusterReport = createSource(
  clusterOptions,
  async (values): Promise<ReadReport> =>
    () =>
      withCluster(values, async cluster => {
        const report = await readReport(cluster, values)
        if (!report) return { problem: 'the operator has no report yet' }
        return { ...report, resources: await readStatuses(cluster, values.namespace) }
      }),
)

/** Resolves with undefined if the operator has no report yet. */
function readReport(cluster: Cluster, values: ClusterValues): Promise<StatusReport | undefined> {
  return callOperators(cluster, values, async pod => {
    const page = await cluster.getText(pagePath(pod, operatorPort(pod), '/status'), maxReportBytes)
    return JSON.parse(page) as StatusReport
  })
}

/** Calls one operator after the other until a call succeeds. Rejects with the error of the first call. */
async function callOperators<T>(
  cluster: Cluster,
  values: ClusterValues,
  use: (pod: TollwayPod) => Promise<T>,
): Promise<T> {
  let problem: unknown
  for (const pod of await findOperatorPods(cluster, values['tollway-namespace'])) {
    try {
      return await use(pod)
    } catch (error) {
      problem ??= explainFailedStart(error, pod)
    }
  }
  throw problem
}

async function readStatuses(cluster: Cluster, namespace: string | undefined) {
  const { limits, routes } = openKinds([])
  const stored: StoredKind[] = []
  for (const kind of [limits, routes, reportedMerchants]) {
    const resources = (await listKind(cluster, kind.definition, namespace)) as readonly StoredResource[]
    stored.push({ kind, resources })
  }
  return describeStored(stored)
}

/** Returns the reason why a pod does not start, or `problem` if its status has none. */
function explainFailedStart(problem: unknown, { namespace, object }: TollwayPod): unknown {
  const [replica] = observePods([object])
  if (replica?.obstacle === undefined) return problem
  const cause = { origin: replica.name, message: replica.obstacle.cause }
  const { message } = withAdvice(cause, replica.obstacle, operatorValues, namespace)
  return new Error(`the operator ${replica.name} does not start: ${message}`, { cause: problem })
}

const contentOptions = {
  file: optionalText({
    short: 'f',
    placeholder: 'FOLDER',
    help: 'the folder or file to read instead of the cluster',
    completion: aFile,
  }),
}

export const clusterContent = createSource(
  { ...contentOptions, ...clusterOptions },
  async (values, output): Promise<FolderContent> => {
    if (values.file !== undefined) return folderSource.open(values, output)
    const { namespace } = values
    const resources = await withCluster(values, cluster => readCluster(cluster, namespace))
    return {
      folder: namespace === undefined ? 'the cluster' : `the namespace ${namespace}`,
      resources,
      problems: [],
      unread: [],
      kinds: openKinds(resources),
      memoriesOf: () => new Map(),
    }
  },
)

const tokenFile = {
  'token-file': optionalText({
    placeholder: 'FILE',
    help: 'the file with a bearer token (default: the token of the kubeconfig)',
    completion: aFile,
  }),
}

/** The API is called through a forwarded port with the token of the user. */
export const clusterOperator = createSource({ ...tokenFile, ...clusterOptions }, values =>
  withCluster(values, async (cluster): Promise<OperatorAddress> => {
    const token = await findToken(cluster, values['token-file'])
    const port = await callOperators(cluster, values, async pod => {
      await requirePodRights('portforward', cluster, pod)
      return forwardHttpPort(pod, operatorPort(pod), values)
    })
    return { url: new URL(`http://127.0.0.1:${port}`), token }
  }),
)

async function findToken(cluster: Cluster, file: string | undefined): Promise<string> {
  const token = file === undefined ? await cluster.token() : readToken(file)
  if (token !== undefined) return token
  const advice = 'name a token with --token-file, see: kubectl create token --help'
  throw new UsageError(
    `the kubeconfig authenticates without a token, and the operator requires one; ${advice}`,
  )
}

const brokerDebugPort = 6072

/** Debug servers listen on the loopback address of their pods. */
export const clusterBrokers = createSource(clusterOptions, values =>
  withCluster(values, async (cluster): Promise<readonly BrokerAddress[]> => {
    const pods = await findServicePods(cluster, 'broker', values['tollway-namespace'])
    await requirePodRights('portforward', cluster, pods[0])
    const ports = await Promise.all(pods.map(pod => forwardPort(pod, brokerDebugPort, values)))
    return ports.map(port => ({ url: new URL(`http://127.0.0.1:${port}`) }))
  }),
)

/**
 * @param namespace undefined for all namespaces
 * @throws Error if the kinds do not exist, or a right is missing
 */
export async function readCluster(
  cluster: Pick<Cluster, 'listAll'>,
  namespace: string | undefined,
): Promise<readonly SourcedResource[]> {
  const resources: SourcedResource[] = []
  for (const definition of resourceKinds) {
    const objects = await listKind(cluster, definition, namespace)
    resources.push(...objects.map(object => toSourcedResource(definition.kind, object)))
  }
  return resources
}

export async function listKind(
  cluster: Pick<Cluster, 'listAll'>,
  definition: (typeof resourceKinds)[number],
  namespace: string | undefined,
) {
  try {
    return await cluster.listAll(customResource(definition), { namespace })
  } catch (error) {
    if (!isNotFound(error)) throw error
    const { kind, plural } = definition
    throw new Error(
      `Tollway is not installed in this cluster: the kind ${kind} (${plural}.${apiGroup}) does not exist`,
    )
  }
}

/**
 * Checks, before kubectl runs, the rights that `kubectl exec` and `kubectl port-forward` require: kubectl's
 * own errors have other words and exit codes than those of Tollway.
 *
 * @throws MissingRightError
 */
export async function requirePodRights(
  subresource: 'exec' | 'portforward',
  cluster: Pick<Cluster, 'requireRight'>,
  { namespace }: Pick<TollwayPod, 'namespace'>,
): Promise<void> {
  // kubectl reads the pod first.
  await cluster.requireRight({ verb: 'get', resource: 'pods', namespace })
  await cluster.requireRight({ verb: 'create', resource: 'pods', subresource, namespace })
}
