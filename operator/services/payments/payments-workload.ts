import type { Workload } from '../../translated-types.ts'

/** The options of the workload of the payments service. */
export interface PaymentsWorkloadOptions {
  readonly replicas: number
  readonly storage: PaymentsStorage
  /** The port of the API and the payment page. */
  readonly port: number
  /** The port through which only the operator provisions merchants. */
  readonly provisionPort: number
  readonly provisionAccess: ProvisionAccess
  /** The address of the rate limit service, which counts API calls for all processes; null if none runs. */
  readonly rateLimit: { readonly address: string; readonly domain: string } | null
  readonly logLevel: string
  /** The time limit of a process from SIGTERM to its end. */
  readonly stopGraceMs: number
  /** Settings of the service that take precedence over all of the above. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * The database of payments: the one inside the process, with its files in this folder, or the PostgreSQL
 * whose address is in this file, because it contains a password. The first process that starts migrates its
 * schema, while the others wait.
 */
export type PaymentsStorage =
  | { readonly type: 'embedded'; readonly stateDir: string }
  | { readonly type: 'postgres'; readonly urlFile: string }

/** The credential of a provisioning client: the token in this file, or a certificate with that name. */
export type ProvisionAccess =
  | { readonly type: 'token'; readonly tokenFile: string }
  | {
      readonly type: 'certificate'
      readonly certFile: string
      readonly keyFile: string
      readonly caFile: string
      readonly clientName: string
    }

export function paymentsWorkload(options: PaymentsWorkloadOptions): Workload {
  const { port, provisionPort } = options
  return {
    name: 'payments',
    service: 'payments',
    replicas: options.replicas,
    ports: [
      { name: 'http', port, reach: 'any' },
      { name: 'provision', port: provisionPort, reach: 'any', callers: 'operator' },
    ],
    stopGraceMs: options.stopGraceMs,
    env: {
      PORT: `${port}`,
      PROVISION_PORT: `${provisionPort}`,
      LOG_LEVEL: options.logLevel,
      ...storageSettings(options.storage),
      ...provisionSettings(options.provisionAccess),
      ...rateLimitSettings(options.rateLimit),
      ...options.env,
    },
  }
}

function storageSettings(storage: PaymentsStorage): Record<string, string> {
  if (storage.type === 'embedded') return { STATE_DIR: storage.stateDir }
  return { DATABASE_URL_FILE: storage.urlFile }
}

function rateLimitSettings(rateLimit: PaymentsWorkloadOptions['rateLimit']): Record<string, string> {
  if (rateLimit === null) return {}
  return { RATE_LIMIT_ADDRESS: rateLimit.address, RATE_LIMIT_DOMAIN: rateLimit.domain }
}

function provisionSettings(access: ProvisionAccess): Record<string, string> {
  if (access.type === 'token') return { PROVISION_TOKEN_FILE: access.tokenFile }
  return {
    PROVISION_TLS_CERT: access.certFile,
    PROVISION_TLS_KEY: access.keyFile,
    PROVISION_TLS_CLIENT_CA: access.caFile,
    PROVISION_TLS_CLIENT_NAME: access.clientName,
  }
}
