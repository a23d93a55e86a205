import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import { ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import { BackendWatch } from '@tollway/chassis/health/watch-backend.ts'
import { reportBackend, reportHealth } from '@tollway/chassis/lifecycle.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { findPortProblems } from '@tollway/chassis/net/taken-ports.ts'
import { type TlsFile, TlsFiles } from '@tollway/chassis/net/tls.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { startBackground } from './background.ts'
import { openCallGuard } from './call-guard.ts'
import { describeError } from './describe-error.ts'
import { readSecret, watchSecret } from './follow-secret.ts'
import { startAdminServer } from './http/servers/admin-server.ts'
import { createApiServer } from './http/servers/api-server.ts'
import { createMonitorServer } from './http/servers/monitor-server.ts'
import { createProvisionServer } from './http/servers/provision-server.ts'
import type { JsonServer, JsonServerOptions } from './http/servers/server.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { dataFolder, openStorage } from './open-storage.ts'
import type { Payments } from './operations/operation.ts'
import { AttemptLimit } from './pages/attempt-limit.ts'
import { watchPageSecrets } from './pages/page-secrets.ts'
import { payPages } from './pages/pay-pages.ts'
import { paymentsCheckout } from './pages/payments-checkout.ts'
import { createTestProcessor } from './processor/test-processor.ts'
import type { Settings } from './settings.ts'
import { createStoredAnswers, createStoredJournal } from './storage/delivery/test-processor-stores.ts'
import { type MeasuredStorage, measureStorage } from './storage/engine/measured-storage.ts'
import { Idempotency } from './storage/idempotency/idempotency.ts'
import type { Storage } from './storage/storage.ts'
import { createTasks } from './tasks.ts'

interface Service {
  readonly port: number
  readonly debugPort: number
  /** The bound port; null if provisioning is not configured. */
  readonly provisionPort: number | null
  /**
   * Reports at once that the service is not ready. After DRAIN_DELAY, accepts no more requests, waits for the
   * running ones up to DRAIN_TIMEOUT, and closes everything.
   */
  stop(): Promise<void>
}

/** The timeout of the statement with which `watchDatabase` probes the database. */
const probeTimeoutMs = 2_000

/**
 * The paths of secrets in files, which are read again when they change; undefined for a secret that is not in
 * a file.
 */
interface SecretFiles {
  readonly provisionTokenFile?: string | undefined
  readonly payPageSecretFile?: string | undefined
}

/**
 * Starts the service, and resolves when it accepts requests. Before anything else, rejects if ports are not
 * free or certificates are invalid. Then starts the storage, the operations, the servers and the background
 * work, each of which depends on the earlier ones.
 */
export async function startService(
  settings: Settings,
  log: Log,
  { provisionTokenFile, payPageSecretFile }: SecretFiles = {},
): Promise<Service> {
  await assertPortsFree(settings)
  const tls = openTls(settings, log)
  const metrics = createMetrics()
  const storage = meterStorage(await openStorage(settings, log), metrics)
  const payments = createPayments(settings, storage)
  // A failure of the database after the start does not make the process unready: all processes share the
  // database, so none would be ready.
  const health = new ServiceHealth(isServing => (isServing ? '' : 'is starting'))
  const ready = async () => health.healthy
  const backend = watchDatabase(settings, storage, log)
  metrics.gauge('payments_backend_failing', 'Whether the database does not answer probes.', () =>
    Number(backend.problem !== ''),
  )
  const shared = { log, clock: systemClock, randomBytes, payments, onAnswer: countAnswers(metrics) }
  const countReplay = metrics.counter(
    'payments_idempotency_replays_total',
    'Stored answers to repeated requests.',
  )
  const { openSignup, signupsPerMinute } = settings
  const pageSecrets = watchPageSecrets({
    set: settings.payPageSecret,
    path: payPageSecretFile,
    folder: dataFolder(settings),
    onWarning: text => log.warn('read PAY_PAGE_SECRET_FILE failed', { reason: text }),
  })
  const guard = await openCallGuard(settings, log, metrics)
  const api = createApiServer({
    ...shared,
    ready,
    guard,
    onReplay: () => countReplay(),
    signUps: openSignup ? new KeyedRateLimiter(signupsPerMinute, systemClock) : null,
    trustedProxies: settings.trustedProxies,
    tls: tls.api,
    extend: app => app.register(createPages(settings, payments, log, pageSecrets), { prefix: '/pay' }),
  })
  const provisionToken = watchSecret({
    first: settings.provisionToken,
    path: provisionTokenFile,
    onWarning: text => log.warn('read PROVISION_TOKEN_FILE failed', { reason: text }),
  })
  const provision = createProvisioning(settings, { ...shared, provisionToken }, tls.provision)
  const admin = await startAdmin(settings, shared)
  const monitor = createMonitorServer({
    metrics,
    ready,
    accepts: () => health.acceptProblem === '',
    backendProblem: () => backend.problem,
  })
  const debugPort = await monitor.listen({ host: settings.debugHost, port: settings.debugPort })
  const provisionPort =
    (await provision?.listen({ host: settings.provisionHost, port: settings.provisionPort })) ?? null
  const port = await api.listen({ host: settings.host, port: settings.port })
  health.serve()
  const { tasks, drain } = createTasks({ settings, payments, log, metrics })
  const background = startBackground(tasks, settings.backgroundIntervalMs, log)
  reportHealth(true)
  log.info('start service', { http: port, provision: provisionPort, debug: debugPort })
  return {
    port,
    debugPort,
    provisionPort,
    async stop() {
      health.terminate()
      backend.stop()
      reportHealth(false, 'draining')
      await pause(settings.drainDelayMs)
      health.close()
      await Promise.all([api, provision, admin].map(server => server?.close(settings.drainTimeoutMs)))
      await background.stop()
      await drain()
      await monitor.close()
      guard.close()
      await storage.close()
      for (const files of [tls.api, tls.provision]) files?.close()
    },
  }
}

export function createPayments(settings: Settings, storage: Storage): Payments {
  const clock = systemClock
  const test = createTestProcessor({
    key: readSecret(settings.testProcessorKey, dataFolder(settings), 'test-processor-key'),
    journal: createStoredJournal(storage),
    answers: createStoredAnswers(storage),
    now: () => clock.nowMs(),
    eventDelayMs: settings.testProcessorEventDelayMs,
  })
  return {
    storage,
    idempotency: new Idempotency({
      storage,
      clock,
      random: Math.random,
      randomBytes,
      leaseMs: settings.idempotencyLeaseMs,
    }),
    processors: { test, live: null },
    clock,
    randomBytes,
    pricing: { fees: settings.fees, rates: settings.exchangeRates },
    trailLimits: { captures: settings.maxCaptures, refunds: settings.maxRefunds, voids: settings.maxVoids },
    invitationLimits: {
      perApp: settings.invitationsPerApp,
      perMerchant: settings.invitationsPerMerchant,
      perRecipient: settings.invitationsPerRecipient,
    },
    fundingCurrencies: settings.fundingCurrencies,
    authorisationLifetimeMs: settings.authorisationLifetimeMs,
    authorisationSweepMs: settings.authorisationSweepMs,
    webhookPolicy: new AddressPolicy(settings.webhookAllowedCidrs, settings.webhookAllowHttp),
  }
}

function createPages(settings: Settings, payments: Payments, log: Log, secrets: () => readonly Uint8Array[]) {
  return payPages({
    checkout: paymentsCheckout(payments),
    attempts: new AttemptLimit(
      { perAddress: settings.payAttemptsPerAddress, perMerchant: settings.payAttemptsPerMerchant },
      systemClock,
    ),
    secrets,
    clock: systemClock,
    randomBytes,
    onError: (error, { id }) =>
      log.error('handle page request failed', { requestId: id, error: describeError(error) }),
  })
}

/** Starts the admin server; only for the embedded database, which no other process can open. */
function startAdmin(
  settings: Settings,
  shared: JsonServerOptions & { readonly payments: Payments },
): Promise<Pick<JsonServer, 'close'>> | undefined {
  if (settings.databaseUrl !== '') return undefined
  const { payments } = shared
  return startAdminServer({
    ...shared,
    storage: payments.storage,
    payments: () => payments,
    folder: dataFolder(settings),
  })
}

async function assertPortsFree(settings: Settings): Promise<void> {
  const { host, port, debugHost, debugPort, provisionHost, provisionPort } = settings
  const problems = await findPortProblems([
    { name: 'PORT', host, port },
    { name: 'DEBUG_PORT', host: debugHost, port: debugPort },
    ...(isProvisioningEnabled(settings)
      ? [{ name: 'PROVISION_PORT', host: provisionHost, port: provisionPort }]
      : []),
  ])
  if (problems.length > 0) throw new Error(problems.join('; '))
}

function isProvisioningEnabled({ provisionToken, provisionTlsClientCa }: Settings): boolean {
  return provisionToken !== '' || provisionTlsClientCa !== ''
}

function createProvisioning(
  settings: Settings,
  shared: JsonServerOptions & { readonly payments: Payments; readonly provisionToken: () => string },
  tls: TlsFiles | undefined,
): JsonServer | undefined {
  if (!isProvisioningEnabled(settings)) return undefined
  const { provisionTlsClientCa, provisionTlsClientName: clientName } = settings
  const token = settings.provisionToken === '' ? null : shared.provisionToken
  const demandsCertificate = provisionTlsClientCa !== ''
  return createProvisionServer({ ...shared, token, tls, demandsCertificate, clientName })
}

/** @throws Error if the certificate files are missing or invalid */
function openTls(settings: Settings, log: Log): { readonly api?: TlsFiles; readonly provision?: TlsFiles } {
  const open = (cert: TlsFile, key: TlsFile, ca?: TlsFile) =>
    [cert, key, ca].some(file => file !== undefined && file.path !== '')
      ? new TlsFiles({
          cert,
          key,
          ca,
          onReloadFailed: reason => log.warn('reload certificates failed', { reason }),
        })
      : undefined
  const api = open(
    { setting: 'TLS_CERT', path: settings.tlsCert },
    { setting: 'TLS_KEY', path: settings.tlsKey },
  )
  const { provisionTlsClientCa: ca, provisionTlsCert: cert } = settings
  if (ca !== '' && cert === '') {
    throw new Error(
      'PROVISION_TLS_CLIENT_CA: needs PROVISION_TLS_CERT and PROVISION_TLS_KEY, which are not set',
    )
  }
  const provision = open(
    { setting: 'PROVISION_TLS_CERT', path: settings.provisionTlsCert },
    { setting: 'PROVISION_TLS_KEY', path: settings.provisionTlsKey },
    { setting: 'PROVISION_TLS_CLIENT_CA', path: settings.provisionTlsClientCa },
  )
  return { ...(api && { api }), ...(provision && { provision }) }
}

function meterStorage(storage: Storage, metrics: Metrics): MeasuredStorage {
  const count = metrics.counter('payments_database_transactions_total', 'Database transactions by outcome.')
  const time = metrics.histogram(
    'payments_database_transaction_seconds',
    'Durations of database transactions.',
  )
  const ended = (outcome: string, ms: number) => {
    count({ outcome })
    time({}, ms)
  }
  const meter = measureStorage(storage, { ended }, systemClock)
  metrics.gauge('payments_database_transactions_running', 'Database transactions that run or wait.', () =>
    meter.running(),
  )
  metrics.gauge('payments_process_resident_bytes', 'Memory of this process.', () => process.memoryUsage.rss())
  return meter
}

function countAnswers(metrics: Metrics): JsonServerOptions['onAnswer'] {
  const count = metrics.counter('payments_http_requests_total', 'Requests by route, method and status.')
  const time = metrics.histogram(
    'payments_http_request_seconds',
    'Durations of requests by route and method.',
  )
  return ({ route, method, status, durationMs }) => {
    count({ route, method, status: String(status) })
    time({ route, method }, durationMs)
  }
}

/** Reports failures of PostgreSQL to the parent process and in the log. */
function watchDatabase(
  { databaseUrl }: Settings,
  { transaction }: Storage,
  log: Log,
): Pick<BackendWatch, 'problem' | 'stop'> {
  if (databaseUrl === '') return { problem: '', stop() {} }
  return new BackendWatch({
    probe: () => transaction(tx => tx.query('SELECT 1'), { statementTimeoutMs: probeTimeoutMs }),
    onChange(problem) {
      reportBackend(problem)
      if (problem === '') log.info('probe database')
      else log.warn('probe database failed', { reason: problem })
    },
  })
}
