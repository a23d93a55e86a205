import { join } from 'node:path'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles } from '../translated-types.ts'
import { feedClientSecret, feedHost } from './cluster-names.ts'
import type { SharedState } from './workload-options.ts'

/** The folders in a pod in which Secrets are mounted. */
export const feedFolder = '/etc/tollway/feed'
const redisFolder = '/etc/tollway/redis'

/** The time for which a process closes its connections after the drain. */
export const closeMs = 5_000

/** The shared settings of the pods of a service, as fields of the configuration. */
export interface StatePlan {
  readonly type: 'memory' | 'redis'
  /** The entry of a Secret that has the address of the Redis. */
  readonly urlSecret: { readonly name: string; readonly key: string }
}

/** Returns the same settings, as fields of a workload. */
export function sharedStateOf({ type, urlSecret }: StatePlan): SharedState {
  return type === 'memory' ? { type } : { type, urlFile: join(redisFolder, urlSecret.key) }
}

/**
 * Returns the Secrets that are mounted into the pods of a service.
 *
 * @param namedBy the values of the chart that name the Secret of the plan
 */
export function secretFilesOf(
  { name }: Pick<ClusterConfig, 'name'>,
  { type, urlSecret }: StatePlan,
  namedBy: string,
): readonly SecretFiles[] {
  const feed = feedFilesOf(name)
  if (type === 'memory') return [feed]
  const { name: secretName, key } = urlSecret
  return [feed, { name: 'redis', secretName, keys: [key], folder: redisFolder, namedBy }]
}

/** The certificate of the pods, which every service reads again when it changes. */
export function feedFilesOf(installation: string): SecretFiles {
  return { name: 'feed', secretName: feedClientSecret(installation), folder: feedFolder, isReread: true }
}

/** Returns `host:port` of the feed. */
export function feedAddressOf({ name, feedPort }: ClusterConfig, namespace: string): string {
  return `${feedHost(name, namespace)}:${feedPort}`
}

/**
 * Returns the settings by which a pod and the feed authenticate each other, and those that move callers to
 * other pods in time.
 */
export function podEnv({ name }: ClusterConfig, namespace: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: feedHost(name, namespace),
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(feedFolder, 'ca.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(feedFolder, 'tls.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(feedFolder, 'tls.key'),
    // Anyone who reaches the debug port of a pod could read and change its state.
    DEBUG_HOST: '127.0.0.1',
    // Callers resolve pods by DNS, and name servers cache an answer for 30 s, the default of kubeadm's
    // CoreDNS. A pod accepts calls until its address has expired from all caches, and callers have had time
    // to resolve again.
    DRAIN_DELAY: '35s',
  }
}
