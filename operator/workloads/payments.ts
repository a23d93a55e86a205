import { join } from 'node:path'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { settings } from '@tollway/payments/settings.ts'
import type { PaymentAddresses } from '../kinds/merchant/merchant-reconciler.ts'
import type { Workload } from '../model.ts'
import { feedHost, paymentsHost, paymentsSecret, rateLimitHost } from './cluster-names.ts'
import {
  type CommonConfig,
  type HostConfig,
  portOption,
  settingsOption,
  switchOption,
} from './host-option.ts'
import { type ClusterService, closeOnHostMs, type HostService, hostDrainDelay } from './service.ts'
import { closeMs, createServiceEnv, feedFolder, makeFeedFiles } from './service-env.ts'

export const paymentsEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.host, machine: 'host' },
    { setting: settings.port, machine: 'paymentsPort', cluster: 'payments.port' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'paymentsDebugPort', cluster: 'payments.metricsPort' },
    { setting: settings.provisionHost },
    { setting: settings.provisionPort, machine: 'paymentsProvisionPort', cluster: 'payments.provisionPort' },
    { setting: settings.provisionToken },
    { setting: settings.provisionTlsCert },
    { setting: settings.provisionTlsKey },
    { setting: settings.provisionTlsClientCa },
    { setting: settings.provisionTlsClientName },
    { setting: settings.stateDir },
    { setting: settings.databaseUrl, cluster: 'payments.database' },
  ],
})

const options = {
  payments: switchOption({
    flag: 'payments',
    help: 'run the payments service, with its database in the state folder',
  }),
  paymentsPort: portOption({
    flag: 'payments-port',
    fallback: 8090,
    help: 'the port of the API and the payment page',
  }),
  paymentsDebugPort: portOption({
    flag: 'payments-debug-port',
    fallback: 6073,
    help: 'the debug port of the payments service, on loopback',
  }),
  paymentsProvisionPort: portOption({
    flag: 'payments-provision-port',
    fallback: 8091,
    help: 'the port on which the operator provisions merchants, on loopback',
  }),
  paymentsEnv: settingsOption(paymentsEnv, {
    flag: 'payments-env',
    help: 'a setting of the payments service; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const paymentsOnHost = {
  program: { main: new URL('../../services/payments/main.ts', import.meta.url), options: [] },
  options,
  // The embedded database is inside the process, so there is only one process.
  processes: ({ payments }) => (payments ? 1 : 0),
  offBy: '--payments is not given',
  portFields: { http: 'paymentsPort', debug: 'paymentsDebugPort', provision: 'paymentsProvisionPort' },
  sharedPorts: ['paymentsPort'],
  ownPorts: ({ paymentsDebugPort, paymentsProvisionPort }) => ({
    debug: paymentsDebugPort,
    provision: paymentsProvisionPort,
  }),
  addresses: ({ paymentsPort }, host) => ({
    payments: `http://${host}:${paymentsPort}`,
    payPage: `http://${host}:${paymentsPort}/pay`,
  }),
  state: 'payments',
  sharesRedis: () => false,
  workload(config, { rateLimitAddress, stateDir, provisionTokenFile }) {
    const env = { ...hostDrainDelay, DRAIN_TIMEOUT: '5s', ...config.paymentsEnv }
    const workload = paymentsWorkload({
      replicas: 1,
      storage: { type: 'embedded', stateDir },
      port: config.paymentsPort,
      provisionPort: config.paymentsProvisionPort,
      provisionAccess: { type: 'token', tokenFile: provisionTokenFile },
      rateLimit: { address: rateLimitAddress, domain: settings.rateLimitDomain.fallback },
      logLevel: config.logLevel,
      stopGraceMs: paymentsEnv.drainMs(env) + closeOnHostMs,
      env,
    })
    // The ports that only the operator calls are left out: `ownPorts` gives them to the process, on the
    // loopback address.
    return { ...workload, ports: workload.ports.filter(({ callers }) => callers === undefined) }
  },
  // On the first start the process creates its database.
  firstReadyMs: 60_000,
} as const satisfies HostService<Config>

interface PaymentsWorkloadOptions {
  readonly replicas: number
  readonly storage: PaymentsStorage
  readonly port: number
  readonly provisionPort: number
  readonly provisionAccess: ProvisionAccess
  /** The rate limit service that counts API calls for all processes; null if none runs. */
  readonly rateLimit: { readonly address: string; readonly domain: string } | null
  readonly logLevel: string
  /** The time limit from SIGTERM to the end of a process. */
  readonly stopGraceMs: number
  /** Settings of the service. They take precedence over the other options. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * The database of payments. `embedded`: inside the process, with its files in this folder. `postgres`: a
 * PostgreSQL whose address is in a file, because it contains a password. The first process that starts
 * migrates the schema, while the others wait.
 */
type PaymentsStorage =
  | { readonly type: 'embedded'; readonly stateDir: string }
  | { readonly type: 'postgres'; readonly urlFile: string }

/**
 * What a client of the provisioning port must present: the token in this file, or a certificate with this
 * name.
 */
type ProvisionAccess =
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

const databaseFolder = '/etc/tollway/database'
const mailFolder = '/etc/tollway/mail'
const ownFolder = '/etc/tollway/payments'

/**
 * Values that all processes of one database share. The keys are the entries of a Secret that the operator
 * creates, the values are the names of the settings.
 */
export const sharedSecrets = {
  testProcessorKey: 'TEST_PROCESSOR_KEY',
  payPageSecret: 'PAY_PAGE_SECRET',
} as const

export const paymentsInCluster: ClusterService = {
  field: 'payments',
  workload,
  addresses(config, _, namespace) {
    const { baseUrl, payPageUrl } = readPaymentAddresses(config, namespace)
    return { payments: baseUrl, payPage: payPageUrl }
  },
}

/**
 * Returns the workload of the payments service. Settings in `payments.env` take precedence over all others.
 */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { payments, logLevel, name } = config
  const { database, mail, metricsPort } = payments
  const { urlSecret } = database
  const env = {
    ...ownEnv(metricsPort),
    ...mailEnv(mail),
    ...pageCheckEnv(config, namespace),
    ...payments.env,
  }
  const shared = paymentsWorkload({
    replicas: payments.replicas,
    storage: { type: 'postgres', urlFile: join(databaseFolder, urlSecret.key) },
    port: payments.port,
    provisionPort: payments.provisionPort,
    provisionAccess: {
      type: 'certificate',
      certFile: join(feedFolder, 'tls.crt'),
      keyFile: join(feedFolder, 'tls.key'),
      caFile: join(feedFolder, 'ca.crt'),
      clientName: feedHost(name, namespace),
    },
    rateLimit: readRateLimit(config, namespace),
    logLevel,
    stopGraceMs: paymentsEnv.drainMs(env) + closeMs,
    env,
  })
  return {
    ...shared,
    secretFiles: [
      makeFeedFiles(name),
      {
        name: 'database',
        secretName: urlSecret.name,
        keys: [urlSecret.key],
        folder: databaseFolder,
        namedBy: 'payments.database.urlSecret',
      },
      { name: 'payments', secretName: paymentsSecret(name), folder: ownFolder },
      ...mailFiles(mail),
    ],
    ports: [...shared.ports, { name: 'metrics', port: metricsPort, reach: 'pods' }],
    probes: {
      ready: { port: 'metrics', path: '/readyz?draining=ok' },
      alive: { port: 'metrics', path: '/healthz' },
    },
  }
}

function readRateLimit({ name, rateLimit }: ClusterConfig, namespace: string) {
  if (!rateLimit.enabled) return null
  const address = `${rateLimitHost(name, namespace)}:${rateLimit.grpcPort}`
  return { address, domain: `${name}-payments-api` }
}

type Mail = ClusterConfig['payments']['mail']

function mailEnv({ urlSecret: { name, key } }: Mail): Readonly<Record<string, string>> {
  return name === '' ? {} : { MAIL_SMTP_URL_FILE: join(mailFolder, key) }
}

/** Returns the address for the page check if a public address is configured; nothing otherwise. */
function pageCheckEnv(config: ClusterConfig, namespace: string): Readonly<Record<string, string>> {
  const { baseUrl, payPageUrl } = config.payments
  if (baseUrl === '' && payPageUrl === '') return {}
  return { PAY_PAGE_CHECK_URL: `${readPaymentAddresses(config, namespace).payPageUrl}/` }
}

function mailFiles({ urlSecret: { name, key } }: Mail): NonNullable<Workload['secretFiles']> {
  if (name === '') return []
  const namedBy = 'payments.mail.urlSecret'
  return [{ name: 'mail', secretName: name, keys: [key], folder: mailFolder, namedBy }]
}

function ownEnv(metricsPort: number): Readonly<Record<string, string>> {
  const files = Object.entries(sharedSecrets).map(([entry, name]) => [`${name}_FILE`, join(ownFolder, entry)])
  return {
    // The kubelet and Prometheus connect from outside the pod.
    DEBUG_HOST: '0.0.0.0',
    DEBUG_PORT: `${metricsPort}`,
    // The only writable folder of a pod. Its content need not be kept.
    STATE_DIR: '/tmp/tollway',
    PROVISION_HOST: '0.0.0.0',
    // After SIGTERM a pod accepts calls for this time: callers resolve its name only every few seconds.
    DRAIN_DELAY: '10s',
    ...(Object.fromEntries(files) as Record<string, string>),
  }
}

/** Returns the addresses for programs and payers: the configured ones, or else those within the cluster. */
export function readPaymentAddresses({ name, payments }: ClusterConfig, namespace: string): PaymentAddresses {
  const { baseUrl, payPageUrl, port } = payments
  const base = baseUrl === '' ? `http://${paymentsHost(name, namespace)}:${port}` : baseUrl.replace(/\/$/, '')
  return { baseUrl: base, payPageUrl: payPageUrl === '' ? `${base}/pay` : payPageUrl.replace(/\/$/, '') }
}
