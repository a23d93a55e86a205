import { join } from 'node:path'
import { readSettings, type Setting } from '@tollway/chassis/settings.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles } from '../model.ts'
import { feedClientSecret, feedHost } from './cluster-names.ts'
import type { SharedState } from './service.ts'

/** The settings of a service, as the operator knows them. */
export type ServiceEnv = ReturnType<typeof createServiceEnv>

type SettingsTarget = 'machine' | 'cluster'

/**
 * The settings that the operator sets for each process, each with its field of the configuration, if it has
 * one.
 */
type DecidedSetting = { readonly setting: Setting<unknown> } & Readonly<
  Partial<Record<SettingsTarget, string>>
>

type Table = Readonly<Record<string, Setting<unknown>>> & {
  readonly drainDelayMs: Setting<number>
  readonly drainTimeoutMs: Setting<number>
}

interface ServiceEnvOptions {
  /** Every setting of the service. */
  readonly settings: Table
  readonly decided: readonly DecidedSetting[]
  /** The pattern of settings whose names contain a name that the user chose. */
  readonly openNames?: RegExp
}

/** The settings of the tracing libraries, which every service has. */
const tracingNames = /^OTEL_\w+$/

export function createServiceEnv({ settings, decided, openNames }: ServiceEnvOptions) {
  const table: readonly Setting<unknown>[] = Object.values(settings)
  const isKnown = (name: string) =>
    tracingNames.test(name) ||
    openNames?.test(name) === true ||
    table.some(setting => listSettingNames(setting).includes(name))

  const notTheirs = (name: string, place: SettingsTarget): readonly string[] => {
    const found = decided.find(({ setting }) => listSettingNames(setting).includes(name))
    if (found === undefined) return isKnown(name) ? [] : [`${name}: there is no such setting`]
    const field = found[place]
    return [`${name}: the operator decides it${field === undefined ? '' : `; set ${field} instead`}`]
  }

  return {
    /**
     * Validates settings that a person sets for the processes of the service, before any of them starts. Each
     * problem begins with the name of its setting.
     *
     * @param place the configuration that has them: that of `tollway run`, or that of a cluster
     */
    validate(env: Readonly<Record<string, string>>, place: SettingsTarget): readonly string[] {
      // Only the processes read the files that settings name.
      const read = readSettings(settings, env, () => '')
      const wrong = 'problems' in read ? read.problems.map(({ name, message }) => `${name}: ${message}`) : []
      return [...Object.keys(env).flatMap(name => notTheirs(name, place)), ...wrong]
    },
    /** Returns whether the value is a secret. */
    isSecret: (name: string): boolean =>
      table.some(({ secret, name: own, aliases = [] }) => secret && [own, ...aliases].includes(name)),
    /** Returns the time limit of a process with these settings from SIGTERM to its end. */
    drainMs(env: Readonly<Record<string, string>>): number {
      const { drainDelayMs, drainTimeoutMs } = settings
      return [drainDelayMs, drainTimeoutMs]
        .map(({ name, fallback, kind }) => kind.parse(env[name] || fallback) ?? 0)
        .reduce((sum, ms) => sum + ms, 0)
    },
  }
}

/** Returns all names of a setting in an environment. */
export function listSettingNames({ name, aliases = [], secret }: Setting<unknown>): readonly string[] {
  const names = [name, ...aliases]
  return secret ? [...names, ...names.map(one => `${one}_FILE`)] : names
}

/** The folders in a pod in which Secrets are mounted. */
export const feedFolder = '/etc/tollway/feed'
const redisFolder = '/etc/tollway/redis'

/** The time for which a process closes its connections after the drain. */
export const closeMs = 5_000

/** The shared settings of the pods of a service, as fields of the configuration. */
interface StatePlan {
  readonly type: 'memory' | 'redis'
  /** The entry of a Secret that has the address of the Redis. */
  readonly urlSecret: { readonly name: string; readonly key: string }
}

/** Returns the same settings, as fields of a workload. */
export function toSharedState({ type, urlSecret }: StatePlan): SharedState {
  return type === 'memory' ? { type } : { type, urlFile: join(redisFolder, urlSecret.key) }
}

/**
 * Returns the Secrets that are mounted into the pods of a service.
 *
 * @param namedBy the values of the chart that name the Secret of the plan
 */
export function makeSecretFiles(
  { name }: Pick<ClusterConfig, 'name'>,
  { type, urlSecret }: StatePlan,
  namedBy: string,
): readonly SecretFiles[] {
  const feed = makeFeedFiles(name)
  if (type === 'memory') return [feed]
  const { name: secretName, key } = urlSecret
  return [feed, { name: 'redis', secretName, keys: [key], folder: redisFolder, namedBy }]
}

/** The certificate of the pods, which every service reads again when it changes. */
export function makeFeedFiles(installation: string): SecretFiles {
  return { name: 'feed', secretName: feedClientSecret(installation), folder: feedFolder, isReread: true }
}

/** Returns `host:port` of the feed. */
export function formatFeedAddress({ name, feedPort }: ClusterConfig, namespace: string): string {
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

/**
 * Returns the settings with which each service follows the operator's feed. The waits are shorter than the
 * defaults, because the operator is near and changes must apply soon. The services ping the operator, which
 * permits it, so that each of them notices within 6 s that its operator has stopped or disappeared. Until
 * then the readiness probe has removed that operator from the Service of the operators, and the next
 * connection reaches another one.
 *
 * @param feedAddress `host:port`
 */
export function feedClientEnv(feedAddress: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_URL: feedAddress,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '3s',
    XDS_CLIENT_KEEPALIVE_INTERVAL: '2s',
    XDS_CLIENT_KEEPALIVE_TIMEOUT: '4s',
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: `${64 * 1024 * 1024}`,
  }
}
