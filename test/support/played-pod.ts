import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KubeApiServer } from './kube-api-server.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

/** A namespace in which an operator of the installation `tollway` runs. */
export interface OperatorPlace {
  readonly api: KubeApiServer
  readonly namespace: string
}

/** Waits for the certificate that the operator issues for its pods, and writes its files into a folder. */
export async function writeFeedCertificate({ api, namespace }: OperatorPlace, folder: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/secrets/tollway-feed-client`
  const find = async () => {
    const answer = await api.call('GET', path)
    return answer.status === 200 && (answer.body as { data: Record<string, string> })
  }
  const secret = await waitFor("the pods' certificate", find, startDeadlineMs)
  mkdirSync(folder)
  for (const [name, value] of Object.entries(secret.data)) {
    writeFileSync(join(folder, name), Buffer.from(value, 'base64'))
  }
}

/**
 * Returns the settings with which a rate limit process follows the feed like a pod, with counters in memory.
 *
 * @param folder with the files of `writeFeedCertificate`
 */
export function fedPodSettings(namespace: string, folder: string): Readonly<Record<string, string>> {
  return {
    BACKEND_TYPE: 'memory',
    USE_PUSHSTATS: 'false',
    DISABLE_STATS: 'true',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    ...feedClientSettings(namespace, folder),
  }
}

/** Returns the settings with which a process of any service proves to the feed that it is a pod. */
export function feedClientSettings(namespace: string, folder: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: `tollway-operator.${namespace}.svc`,
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(folder, 'ca.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(folder, 'tls.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(folder, 'tls.key'),
  }
}

/**
 * Plays a ready pod of a Deployment where no kubelet runs. Resolves with the node metadata by which a process
 * is that pod.
 *
 * @param ports of its container, by name, at 127.0.0.1
 */
export async function playPod(
  { api, namespace }: OperatorPlace,
  name: string,
  ports: Readonly<Record<string, number>> = {},
  service: 'ratelimit' | 'broker' = 'ratelimit',
): Promise<string> {
  const deployment = `/apis/apps/v1/namespaces/${namespace}/deployments/tollway-${service}`
  const { spec } = (await api.call('GET', deployment)).body as {
    spec: { template: { metadata: { labels: Record<string, string> } } }
  }
  const containerPorts = Object.entries(ports).map(([name, containerPort]) => ({ name, containerPort }))
  const pods = `/api/v1/namespaces/${namespace}/pods`
  const created = await api.call('POST', pods, {
    metadata: { name, labels: spec.template.metadata.labels },
    spec: { containers: [{ name: service, image: 'none', ports: containerPorts }] },
  })
  assert.equal(created.status, 201, JSON.stringify(created.body))
  const pod = created.body as { readonly metadata: { readonly uid: string } }
  const status = { phase: 'Running', podIP: '127.0.0.1', conditions: [{ type: 'Ready', status: 'True' }] }
  const answer = await api.call('PUT', `${pods}/${name}/status`, { ...pod, status })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return `pod:${name},namespace:${namespace},uid:${pod.metadata.uid}`
}
