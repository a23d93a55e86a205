import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { KubeClient } from './api/client.ts'
import { createGrantedSecrets, type GrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import { PolledSecrets } from './tenant-secrets/polled-secrets.ts'
import {
  createReadRateLimiter,
  type ReadRateLimiter,
  readsPerSecond,
} from './tenant-secrets/read-rate-limiter.ts'

/** Accesses the Secrets that tenants' namespaces have granted, at a rate limit that all operators share. */
export interface TenantSecrets {
  readonly granted: GrantedSecrets
  readonly rateLimiter: ReadRateLimiter
  readonly routes: PolledSecrets
}

export function openTenantSecrets(
  client: KubeClient,
  config: ClusterConfig,
  ownNamespace: string,
  log: Log,
): TenantSecrets {
  const granted = createGrantedSecrets(client, config, ownNamespace)
  const rateLimiter = createReadRateLimiter({
    readsPerSecond: readsPerSecond / config.operators,
    clock: systemClock,
    random: Math.random,
  })
  const routes = new PolledSecrets({
    read: granted.read,
    rateLimiter,
    random: Math.random,
    onError: (secret, error) => log.warn('read Secret failed', { secret, error: error.message }),
  })
  return { granted, rateLimiter, routes }
}
