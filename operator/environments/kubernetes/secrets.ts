import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { KubeClient } from './api/client.ts'
import { secretAccess } from './api/secrets.ts'
import { createGrantedSecrets, type GrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import { PolledSecrets } from './tenant-secrets/polled-secrets.ts'
import { createReadRateLimiter, type ReadRateLimiter, readsPerSecond } from './tenant-secrets/read-pace.ts'

/** Accesses the Secrets that tenants' namespaces have granted, at a rate limit that all operators share. */
export interface TenantSecrets {
  readonly granted: GrantedSecrets
  readonly pace: ReadRateLimiter
  /** Polls the Secrets that routes name. */
  readonly routes: PolledSecrets
}

interface TenantSecretsOptions {
  readonly client: KubeClient
  readonly config: ClusterConfig
  readonly ownNamespace: string
  readonly log: Log
}

export function openTenantSecrets({
  client,
  config,
  ownNamespace,
  log,
}: TenantSecretsOptions): TenantSecrets {
  const granted = createGrantedSecrets(config, ownNamespace)
  const pace = createReadRateLimiter({
    readsPerSecond: readsPerSecond / config.operators,
    clock: systemClock,
    random: Math.random,
  })
  const routes = new PolledSecrets({
    read: (namespace, name, signal) =>
      granted.attempt(namespace, name, async () => {
        return (await secretAccess(client, { namespace }).get(name, signal))?.data
      }),
    pace,
    random: Math.random,
    onError: (secret, error) => log.warn('read Secret failed', { secret, error: error.message }),
  })
  return { granted, pace, routes }
}
