import { randomBytes, randomUUID } from 'node:crypto'
import type { RequestListener, Server } from 'node:http'
import { join } from 'node:path'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { HeartbeatTimeouts } from '@tollway/chassis/health/signs-of-life.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { logStrayOutput } from '@tollway/chassis/log/log-stray-output.ts'
import { answerClientErrors } from '@tollway/chassis/net/client-errors.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { parseTarget, sendPage } from '@tollway/chassis/net/page.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import { version } from '@tollway/chassis/version.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { openAccess } from '../../api/access.ts'
import { clientErrorAnswer, maxHeaderBytes } from '../../api/answers.ts'
import { OperatorApi } from '../../api/operator-api.ts'
import { type Controller, type OperatorApp, openApp } from '../../app.ts'
import { createConsole } from '../../console/create-console.ts'
import { InfrastructureError, type Replica } from '../../infrastructure/provider.ts'
import { cacheBalances } from '../../kinds/merchant/merchant-books.ts'
import { createProvisionClient } from '../../kinds/merchant/provision-client.ts'
import { unknownKinds } from '../../kinds/registry.ts'
import { type Source, withBuiltIn } from '../../kinds/source.ts'
import { type ServiceName, serviceNames } from '../../model.ts'
import type { StatusReport } from '../../status/status-report.ts'
import { paymentsOnHost } from '../../workloads/payments.ts'
import { services } from '../../workloads/registry.ts'
import { hostEnvironment } from './environment.ts'
import { firstReady } from './first-ready.ts'
import { applyToFolder } from './folder/apply-to-folder.ts'
import { paymentsApiLimits } from './folder/payments-limits.ts'
import { readFromFolder } from './folder/read-from-folder.ts'
import {
  adviceForPort,
  commandFor,
  explainDisabledOnHost,
  firstReadyMs,
  hostWorkloads,
  option,
  portAdvice,
  redisUsers,
  serviceAddresses,
  shownHost,
} from './host-services.ts'
import { rememberedPath } from './memory.ts'
import type { OperatorConfig } from './operator-config.ts'
import { createHostInfrastructure, type HostInfrastructure } from './processes/host.ts'
import type { PortRequest } from './processes/port-probe.ts'
import { type RunningRedis, startRedisFor } from './processes/redis.ts'
import { createFileSource } from './resources.ts'
import { removeStatusReport, writeStatusReport } from './status-file.ts'
import { createOperatorLog, type OperatorLog, openLogFile } from './terminal/operator-log.ts'
import { createProblemLog } from './terminal/problem-log.ts'
import { renderWelcome } from './terminal/welcome.ts'
import { writeAtomically } from './write-atomically.ts'

interface StandaloneOptions {
  /** The folder of the manifests. */
  readonly folder: string
  /** The folder for the logs, and for state that outlives a restart. */
  readonly stateDir: string
  readonly config: OperatorConfig
  /** Shows a text to the person who started the operator. */
  readonly print: (text: string) => void
  /** When it aborts, the start is given up. */
  readonly signal: AbortSignal
  /** When it aborts, `stop` ends without any further wait. */
  readonly forceShutdown: AbortSignal
}

const loopback = '127.0.0.1'

/**
 * Starts the operator on this machine. Resolves when the present resources are in force. Rejects with an
 * `InfrastructureError` if the machine lacks something, and with the reason of `signal` when it aborts;
 * everything that was started has then been stopped. If the feed cannot carry the resources, the log and the
 * status report say why, and the start waits until the folder is corrected.
 */
export async function startStandalone(options: StandaloneOptions): Promise<{ stop(): Promise<void> }> {
  const { folder, stateDir, config, print, signal } = options
  await using started = new AsyncDisposableStack()
  const logFile = join(stateDir, 'tollway.log')
  const log = createOperatorLog({ level: config.logLevel, file: openLogFile(logFile), print })
  logStrayOutput(log)
  const host = openHost(options, log) // locks the state folder
  started.defer(() => host.close())
  removeStatusReport(stateDir)
  const files = createFileSource({ folder, clock: systemClock, onWarn: log.warn })
  const source = withBuiltIn(files, config.payments ? [paymentsApiLimits(config.paymentsEnv)] : [])
  const report = openReport(options, host, source, log)
  const payments = openPayments(started, options)
  const environment = hostEnvironment({
    source,
    infrastructure: host,
    services: serviceNames,
    whySwitchedOff: workload => explainDisabledOnHost(config, workload),
    rememberedPath: rememberedPath(stateDir),
    merchants: { stateDir, ...payments },
    log,
    writeStatus: report.write,
  })
  const app = openApp(environment, log)
  started.defer(() => app.stop())
  const redisUrlFile = join(stateDir, 'redis-url')
  const workloads = hostWorkloads(config, {
    feedAddress: `${loopback}:${config.feedPort}`,
    redisUrlFile,
    stateDir,
    provisionTokenFile: provisionTokenFile(stateDir),
  })
  await host.assertPortsFree(workloads, operatorPorts(config))
  const api = new OperatorApi({
    sources: {
      ...app.sources,
      report: report.current,
      books: cacheBalances(payments.provisioner, systemClock),
      apply: applyToFolder(folder, files),
      manifest: readFromFolder(folder, files),
    },
    access: openAccess,
    log,
  })
  const pages = createOperatorServer(report.current, api)
  await serve(started, config, app, pages, log)
  const redis = await openRedis(options, redisUrlFile, log)
  started.defer(async () => redis?.stop())
  started.defer(() => host.close()) // processes end while their feed and their Redis are still there
  await source.start()
  started.defer(() => source.stop())
  started.defer(() => app.stop())
  await app.start()
  await Promise.all(workloads.map(workload => host.apply(workload)))
  await firstReady({
    host,
    workloads,
    signal,
    deadlineMs: firstReadyMs(config),
    isFeedPublished: () => app.typeUrls.every(typeUrl => app.feed.published(typeUrl) !== undefined),
    advice: adviceFor(config, logFile),
  })
  print(welcome(options, app, { ...report.current(), replicas: observeAll(host) }, logFile))
  const running = started.move()
  return {
    stop() {
      api.close() // so that streams end with an event
      return running.disposeAsync()
    },
  }
}

const provisionTokenFile = (stateDir: string) => join(stateDir, 'provision-token')
const tokenBytes = 32
const maxTokenFileBytes = 4_096

/**
 * Returns the addresses of the payments service, and the operator's client of its provisioning port. The
 * client's token is new with each start.
 */
function openPayments(started: AsyncDisposableStack, { stateDir, config }: StandaloneOptions) {
  const { host, payments, paymentsProvisionPort } = config
  const { payments: baseUrl, payPage: payPageUrl } = paymentsOnHost.addresses(config, shownHost(host))
  const addresses = { baseUrl, payPageUrl }
  if (!payments) return { provisioner: undefined, addresses }
  const file = provisionTokenFile(stateDir)
  writeAtomically(file, randomBytes(tokenBytes).toString('hex'))
  const url = new URL(`http://${loopback}:${paymentsProvisionPort}`)
  // The operator and the service read the file for each call, so that the token can be replaced.
  const token = () => readBoundedFile(file, maxTokenFileBytes).toString('utf8').trim()
  const provisioner = createProvisionClient({ url, token })
  started.defer(async () => provisioner.end())
  return { provisioner, addresses }
}

function operatorPorts({ feedPort, operatorPort }: OperatorConfig): readonly PortRequest[] {
  return [
    { host: loopback, port: feedPort, wantedBy: 'the feed', advice: adviceForPort('feedPort') },
    {
      host: loopback,
      port: operatorPort,
      wantedBy: "the operator's pages",
      advice: adviceForPort('operatorPort'),
    },
  ]
}

/** A process that creates its database sends no message for seconds, and on a busy machine for longer. */
const heartbeat: HeartbeatTimeouts = { firstSignMs: 60_000, nextSignMs: 5_000 }

function openHost(
  { stateDir, config, forceShutdown }: StandaloneOptions,
  log: OperatorLog,
): HostInfrastructure {
  return createHostInfrastructure({
    stateDir,
    clock: systemClock,
    random: Math.random,
    newUid: randomUUID,
    bindHost: config.host,
    log: log.fromProcess,
    portAdvice,
    hostAdvice: `choose another one with ${option('--host ADDRESS')}`,
    forceShutdown,
    heartbeat,
    commandFor,
    // Compiled code is cached: that saves 20 MiB and half a second, because types need not be stripped again.
    env: { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(stateDir, 'compile-cache') },
    ownPortsFor: (index, service) => services[service].onHost.ownPorts(config, index),
  })
}

/** Serves the feed and the operator's pages on the loopback address until `started` is disposed of. */
async function serve(
  started: AsyncDisposableStack,
  { feedPort, operatorPort }: OperatorConfig,
  { feed, loads, sessions }: Pick<OperatorApp<Controller>, 'feed' | 'loads' | 'sessions'>,
  pages: Server,
  log: Log,
): Promise<void> {
  const grpc = createGrpcServer({
    methods: [...feed.methods, ...loads.methods, ...sessions.methods],
    onDefect: (path, error) => log.error('answer call failed', { path, error: `${error}` }),
  })
  await grpc.listen({ host: loopback, port: feedPort })
  started.defer(async () => {
    feed.close()
    sessions.close()
    await grpc.drain(0)
  })
  await listenHttp(pages, { host: loopback, port: operatorPort })
  started.defer(() => closeHttp(pages, lastAnswersMs))
}

/** How long unfinished answers may take when the operator stops. */
const lastAnswersMs = 200

const describeStateStore = (config: OperatorConfig, service: ServiceName) =>
  redisUsers(config).includes(service) ? 'Redis' : 'memory'

/**
 * Writes the address of the Redis that processes share into the file. If none is configured, starts a Redis.
 * Does nothing if no service needs Redis.
 */
async function openRedis(
  options: StandaloneOptions,
  urlFile: string,
  log: OperatorLog,
): Promise<RunningRedis | undefined> {
  const { config } = options
  if (redisUsers(config).length === 0) return undefined
  const redis = config.redisUrl === '' ? await startRedis(options, log) : undefined
  writeAtomically(urlFile, redis?.url ?? config.redisUrl)
  return redis
}

async function startRedis(
  { stateDir, config, forceShutdown }: StandaloneOptions,
  log: OperatorLog,
): Promise<RunningRedis> {
  try {
    return await startRedisFor({
      stateDir,
      clock: systemClock,
      random: Math.random,
      newUid: randomUUID,
      forceShutdown,
      log: log.fromProcess,
    })
  } catch (error) {
    if (!(error instanceof InfrastructureError)) throw error
    const [user = 'ratelimit'] = redisUsers(config)
    const { processes, state } = services[user].onHost
    const why = `${processes(config)} processes share their ${state} in Redis`
    throw new InfrastructureError(`${error.message}; ${why}: name one with --redis-url, or run one process`)
  }
}

function welcome(
  { stateDir, config }: StandaloneOptions,
  { limits, routes }: Pick<OperatorApp<Controller>, 'limits' | 'routes'>,
  report: StatusReport,
  logFile: string,
): string {
  return renderWelcome({
    report,
    stateDir,
    logFile,
    counters: describeStateStore(config, 'ratelimit'),
    inForce: limits.inForce(),
    streams: { log: describeStateStore(config, 'broker'), routes: routes.inForce().length },
  })
}

function adviceFor({ redisUrl }: OperatorConfig, logFile: string): string {
  const redis = redisUrl === '' ? '' : 'check that the Redis of --redis-url is reachable; '
  return `${redis}${logFile} has their output`
}

/** Opens the status report, which is kept in memory and in a file of the state folder. */
function openReport(
  options: StandaloneOptions,
  host: HostInfrastructure,
  source: Pick<Source, 'list' | 'problems'>,
  log: Log,
) {
  const logProblems = createProblemLog(log)
  let report = makeReport(options, [], host, [])
  return {
    current: () => report,
    write(resources: StatusReport['resources']): void {
      report = makeReport(options, resources, host, [...source.problems(), ...unknownKinds(source.list())])
      logProblems(report)
      writeStatusReport(options.stateDir, report)
    },
  }
}

function observeAll(host: HostInfrastructure): readonly Replica[] {
  return serviceNames.flatMap(host.observe)
}

function makeReport(
  { folder, config }: StandaloneOptions,
  resources: StatusReport['resources'],
  host: HostInfrastructure,
  problems: StatusReport['problems'],
): StatusReport {
  return {
    version,
    pid: process.pid,
    updatedAt: new Date(systemClock.nowMs()).toISOString(),
    folder,
    addresses: {
      ...serviceAddresses(config),
      feed: `${loopback}:${config.feedPort}`,
      operator: `http://${loopback}:${config.operatorPort}`,
    },
    resources,
    replicas: observeAll(host),
    problems,
  }
}

/**
 * Serves the operator's own port: `/healthz` for supervisors, `/status` for programs, the API and the
 * console.
 */
export function createOperatorServer(report: () => StatusReport, api: Pick<OperatorApi, 'handle'>): Server {
  const handleConsole = createConsole()
  const answer: RequestListener = (request, response) => {
    if (api.handle(request, response) || handleConsole(request, response)) return
    const { path } = parseTarget(request)
    if (path === '/healthz') return sendPage(response, 200, 'OK')
    if (path !== '/status')
      return sendPage(response, 404, 'no such page; there are /healthz, /status, /api/v1 and /console\n')
    sendPage(response, 200, `${JSON.stringify(report(), undefined, 2)}\n`, 'application/json')
  }
  const server = createGuardedServer(answer, { maxHeaderSize: maxHeaderBytes })
  return answerClientErrors(server, clientErrorAnswer)
}
