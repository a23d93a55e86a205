import { join } from 'node:path'
import { readSettings, type Setting } from '@tollway/chassis/settings.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles } from '../model.ts'
import { feedClientSecret, feedHost } from './cluster-names.ts'
import type { SharedState } from './service.ts'

/** Validates the settings of a service before its processes start. */
export type ServiceEnv = ReturnType<typeof createServiceEnv>

type SettingsTarget = 'machine' | 'cluster'

/**
 * A setting that the operator decides, so that users cannot set it in `env`. For `machine` and `cluster` it
 * names the field of the configuration to use instead, if there is one.
 */
type DecidedSetting = { readonly setting: Setting<unknown> } & Readonly<
  Partial<Record<SettingsTarget, string>>
>

type Table = Readonly<Record<string, Setting<unknown>>> & {
  readonly drainDelayMs: Setting<number>
  readonly drainTimeoutMs: Setting<number>
}

interface ServiceEnvOptions {
  readonly settings: Table
  readonly decided: readonly DecidedSetting[]
  /** Matches the names of settings that contain a part which the user chooses. */
  readonly openNames?: RegExp
}

/** Settings of the tracing libraries, which every service accepts. */
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
     * Validates settings that a user gives in `env`. Each problem starts with the name of the setting.
     *
     * @param place the configuration with the settings: that of `tollway run`, or that of a cluster
     */
    validate(env: Readonly<Record<string, string>>, place: SettingsTarget): readonly string[] {
      // Settings may name files that exist only for the processes, so no file is read.
      const read = readSettings(settings, env, () => '')
      const wrong = 'problems' in read ? read.problems.map(({ name, message }) => `${name}: ${message}`) : []
      return [...Object.keys(env).flatMap(name => notTheirs(name, place)), ...wrong]
    },
    /** Returns whether the setting of this name has a secret value. */
    isSecret: (name: string): boolean =>
      table.some(({ secret, name: own, aliases = [] }) => secret && [own, ...aliases].includes(name)),
    /** Returns the time from SIGTERM to the end of the drain, for a process with these settings. */
    drainMs(env: Readonly<Record<string, string>>): number {
      const { drainDelayMs, drainTimeoutMs } = settings
      return [drainDelayMs, drainTimeoutMs]
        .map(({ name, fallback, kind }) => kind.parse(env[name] || fallback) ?? 0)
        .reduce((sum, ms) => sum + ms, 0)
    },
  }
}

/** Returns all names by which an environment can set this setting. */
export function listSettingNames({ name, aliases = [], secret }: Setting<unknown>): readonly string[] {
  const names = [name, ...aliases]
  return secret ? [...names, ...names.map(one => `${one}_FILE`)] : names
}

export const feedFolder = '/etc/tollway/feed'
const redisFolder = '/etc/tollway/redis'

/** The time in which a process must close its connections after the drain. */
export const closeMs = 5_000

/** Where the pods of a service keep their shared state, as the configuration says it. */
interface StatePlan {
  readonly type: 'memory' | 'redis'
  /** The entry of a Secret with the address of the Redis. */
  readonly urlSecret: { readonly name: string; readonly key: string }
}

export function toSharedState({ type, urlSecret }: StatePlan): SharedState {
  return type === 'memory' ? { type } : { type, urlFile: join(redisFolder, urlSecret.key) }
}

/**
 * Returns the Secrets to mount into the pods of a service.
 *
 * @param namedBy the values of the chart that name the Secret of the Redis, for messages
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

/** Returns the Secret with the certificate of the pods. Services read it again when it changes. */
export function makeFeedFiles(installation: string): SecretFiles {
  return { name: 'feed', secretName: feedClientSecret(installation), folder: feedFolder, isReread: true }
}

export function formatFeedAddress({ name, feedPort }: ClusterConfig, namespace: string): string {
  return `${feedHost(name, namespace)}:${feedPort}`
}

/**
 * Returns settings of the pods that follow the feed: how they and the feed authenticate each other, and how
 * long they accept calls after SIGTERM.
 */
export function podEnv({ name }: ClusterConfig, namespace: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: feedHost(name, namespace),
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(feedFolder, 'ca.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(feedFolder, 'tls.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(feedFolder, 'tls.key'),
    // Whoever reaches the debug port of a pod can read and change its state.
    DEBUG_HOST: '127.0.0.1',
    // Callers find pods by DNS. Name servers cache an answer for 30 s, the default of kubeadm's CoreDNS. A
    // pod therefore accepts calls until its address has expired from all caches, and for 5 s more so that
    // callers can resolve again.
    DRAIN_DELAY: '35s',
  }
}

/**
 * Returns the settings with which a service follows the operator's feed. The waits are shorter than the
 * defaults, because the operator is near and changes must apply within seconds. With these pings a service
 * notices within 6 s that its operator has stopped. By then the readiness probe has removed that operator
 * from the Service, so the next connection reaches another one.
 *
 * @param feedAddress the address as `host:port`
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
