import { join } from 'node:path'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { PaymentAddresses } from '../../kinds/merchant/merchant-reconciler.ts'
import type { Workload } from '../../translated-types.ts'
import { feedHost, paymentsHost, paymentsSecret, rateLimitHost } from '../cluster-names.ts'
import { closeMs, feedFilesOf, feedFolder } from '../pod-env.ts'
import type { ClusterService } from '../service.ts'
import { paymentsEnv } from './payments-env.ts'
import { paymentsWorkload } from './payments-workload.ts'

const databaseFolder = '/etc/tollway/database'
const mailFolder = '/etc/tollway/mail'
const ownFolder = '/etc/tollway/payments'

/**
 * The values that all processes of one database share: entries of a Secret that the operator creates, and
 * settings.
 */
export const sharedSecrets = {
  testProcessorKey: 'TEST_PROCESSOR_KEY',
  payPageSecret: 'PAY_PAGE_SECRET',
} as const

export const paymentsInCluster: ClusterService = {
  field: 'payments',
  workload,
  addresses(config, _, namespace) {
    const { baseUrl, payPageUrl } = paymentAddressesOf(config, namespace)
    return { payments: baseUrl, payPage: payPageUrl }
  },
}

/**
 * Returns the payments service of the configuration. Variables of its `env` take precedence over all others.
 */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { payments, logLevel, name } = config
  const { autoscaling, database, mail, metricsPort } = payments
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
    rateLimit: rateLimitOf(config, namespace),
    logLevel,
    stopGraceMs: paymentsEnv.drainMs(env) + closeMs,
    env,
  })
  const { enabled: isAutoscaled, ...scaling } = autoscaling
  return {
    ...shared,
    ...(isAutoscaled && { autoscaling: scaling }),
    secretFiles: [
      feedFilesOf(name),
      {
        ...{ name: 'database', secretName: urlSecret.name, keys: [urlSecret.key], folder: databaseFolder },
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

function rateLimitOf({ name, rateLimit }: ClusterConfig, namespace: string) {
  if (!rateLimit.enabled) return null
  const address = `${rateLimitHost(name, namespace)}:${rateLimit.grpcPort}`
  return { address, domain: `${name}-payments-api` }
}

type Mail = ClusterConfig['payments']['mail']

function mailEnv({ urlSecret: { name, key } }: Mail): Readonly<Record<string, string>> {
  return name === '' ? {} : { MAIL_SMTP_URL_FILE: join(mailFolder, key) }
}

/** Returns the setting of the page check, which needs an address outside the cluster. */
function pageCheckEnv(config: ClusterConfig, namespace: string): Readonly<Record<string, string>> {
  const { baseUrl, payPageUrl } = config.payments
  if (baseUrl === '' && payPageUrl === '') return {}
  return { PAY_PAGE_CHECK_URL: `${paymentAddressesOf(config, namespace).payPageUrl}/` }
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
    // The only writable folder of a pod. It has nothing that must be kept.
    STATE_DIR: '/tmp/tollway',
    PROVISION_HOST: '0.0.0.0',
    // Before the pod rejects calls, callers that resolve its name every few seconds must have noticed its
    // end.
    DRAIN_DELAY: '10s',
    ...(Object.fromEntries(files) as Record<string, string>),
  }
}

/** Returns the addresses for programs and payers: the configured ones, or those within the cluster. */
export function paymentAddressesOf({ name, payments }: ClusterConfig, namespace: string): PaymentAddresses {
  const { baseUrl, payPageUrl, port } = payments
  const base = baseUrl === '' ? `http://${paymentsHost(name, namespace)}:${port}` : baseUrl.replace(/\/$/, '')
  return { baseUrl: base, payPageUrl: payPageUrl === '' ? `${base}/pay` : payPageUrl.replace(/\/$/, '') }
}
