import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { answerClientErrors } from '@tollway/chassis/net/client-errors.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp } from '@tollway/chassis/net/listen-http.ts'
import { parseTarget, sendPage } from '@tollway/chassis/net/page.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { clientErrorAnswer, maxHeaderBytes } from '../../api/answers.ts'
import { OperatorApi } from '../../api/operator-api.ts'
import { type OperatorApp, openApp } from '../../app.ts'
import { Certificates } from '../../certificates/certificates.ts'
import { createConsole } from '../../console/create-console.ts'
import { failingReplicas } from '../../infrastructure/backend-failures.ts'
import { InfrastructureError } from '../../infrastructure/provider.ts'
import { cacheBalances } from '../../kinds/merchant/merchant-books.ts'
import { createProvisionClient } from '../../kinds/merchant/provision-client.ts'
import { LeaderConnection } from '../../leader/leader-connection.ts'
import { maxMessageBytes } from '../../leader/leader-service.ts'
import { Peers } from '../../leader/peers.ts'
import { reportAcknowledgements, reportLoads } from '../../leader/report-to-leader.ts'
import { serviceNames } from '../../model.ts'
import { groupResources, type StatusReport } from '../../status/status-report.ts'
import * as names from '../../workloads/cluster-names.ts'
import { clusterWorkloads, makePodShape } from '../../workloads/registry.ts'
import type { Feed } from '../../xds/feed.ts'
import type { KubeApiAccess } from './api/access.ts'
import { createKubeClient, type KubeClient } from './api/client.ts'
import { createEventRecorder, type EventRecorder } from './api/events.ts'
import { coreResource } from './api/kube-object.ts'
import { secretAccess, watchSecrets } from './api/secrets.ts'
import { applyAsCaller, readAsCaller } from './callers/caller-client.ts'
import { recordCounterChange } from './callers/record-change.ts'
import { reviewedAccess } from './callers/reviewed-access.ts'
import { type ClusterController, openRunner } from './controller.ts'
import { kubernetesEnvironment } from './environment.ts'
import { KubernetesInfrastructure } from './infrastructure/kubernetes.ts'
import type { Installation } from './infrastructure/objects/installation.ts'
import { Leadership } from './leadership.ts'
import { createOperatorMetrics, type OperatorMetrics } from './metrics.ts'
import { followOperators, type Operators } from './operators.ts'
import { openTenantSecrets } from './secrets.ts'
import { makeClusterReport } from './status/cluster-report.ts'
import { describeServices } from './status/describe-services.ts'
import { readyCondition, type StoredResource } from './status/stored-resource.ts'
import { provideWorkloads } from './workloads/provide-workloads.ts'
import { createSecretDigests, digestedSecrets } from './workloads/secret-digests.ts'

interface ClusterOptions {
  readonly config: ClusterConfig
  readonly access: KubeApiAccess
  readonly pod: OwnPod
  readonly log: Log
}

/** This operator's pod, as the downward API describes it. */
export interface OwnPod {
  readonly name: string
  readonly namespace: string
  /** The IP address at which other operators reach this one. */
  readonly ip: string
  /** The address on which the operator listens. */
  readonly host: string
  /** Identifies the chart release; empty if it is unknown. */
  readonly revision: string
}

/**
 * Starts an operator in a cluster; resolves when it serves the feed. All operators of an installation serve
 * the same feed, and the holder of the Lease writes. Rejects with an `InfrastructureError` if the cluster
 * lacks something, after everything that was started has been stopped.
 */
export async function startInCluster(options: ClusterOptions): Promise<{ stop(): Promise<void> }> {
  const { config, pod, log } = options
  await using started = new AsyncDisposableStack()
  const metrics = openMetrics(() => ({ leadership, feed, kinds, certificates, infrastructure }))
  const client = createKubeClient(options.access, { random: Math.random, onRequest: metrics.requested })
  started.defer(async () => client.close())
  const installation = await findInstallation(client, config, pod)
  const leadership = new Leadership({ client, installation, config, pod, log })
  started.defer(() => leadership.stop())
  const mayWrite = () => leadership.mayWrite()
  const certificates = openCertificates(client, installation, mayWrite, options)
  started.defer(() => certificates.stop())
  const events = openEvents(started, client, pod, log)
  const infrastructure = openInfrastructure(started, { client, installation, mayWrite, events }, options)
  const operatorName = names.feedHost(config.name, pod.namespace)
  const peers = new Peers({ ids: randomUUID, clock: systemClock, log })
  const tls = certificates.clientTls(operatorName)
  const onUnreachable = () => leadership.readLeaseNow()
  const leader = new LeaderConnection({ tls, log, random: Math.random, onUnreachable })
  started.defer(async () => leader.stop())
  const tenants = openTenantSecrets(client, config, pod.namespace, log)
  started.defer(() => tenants.routes.stop())
  const provisioner = openProvisioner(certificates, options)
  started.defer(async () => provisioner.end())
  const environment = kubernetesEnvironment({
    config,
    namespace: pod.namespace,
    client,
    installation,
    infrastructure,
    tenants,
    provisioner,
    operatorName,
    peers,
    leader,
    mayWrite,
    metrics,
    events,
    log,
  })
  const app = openApp(environment, log)
  started.defer(() => app.stop())
  const { feed, kinds } = app
  const workloads = openWorkloads(started, { client, installation, infrastructure, mayWrite }, options)
  const { identity: reporter } = leadership
  started.defer(reportAcknowledgements(leader, { feed, reporter, clock: systemClock }))
  started.defer(reportLoads(leader, app.loads))

  let notReady = 'the resources have not been read yet'
  const operators = followOperators({ client, installation, log, random: Math.random })
  started.defer(() => operators.stop())
  const report = () => makeReport(options, kinds, infrastructure, operators, certificates.problem())
  const { access } = options
  const api = new OperatorApi({
    sources: {
      ...app.sources,
      report,
      books: cacheBalances(config.payments.enabled ? provisioner : undefined, systemClock),
      apply: applyAsCaller(access, { random: Math.random }),
      manifest: readAsCaller(access, { random: Math.random }),
    },
    access: reviewedAccess({ client, clock: systemClock }),
    onCounterChange: change => recordCounterChange(events, app.limits, systemClock, change),
    log,
  })
  await servePages(started, options, { notReady: () => notReady, metrics, report, api })
  leadership.start({
    onStarted() {
      certificates.checkNow()
      workloads.trigger()
      for (const { statuses } of kinds) statuses.recheckAll()
    },
    onStopped: () => infrastructure.standDown(),
    onRival: address => leader.setLeader(address),
  })
  certificates.start()
  workloads.start()
  started.defer(
    watchSecrets({
      client,
      namespace: pod.namespace,
      random: Math.random,
      names: [...Object.values(secretNames(config)), ...workloads.secretNames],
      onChange() {
        certificates.checkNow()
        workloads.checkSecrets()
      },
      onError: (secret, error) => log.warn('watch Secret failed', { secret, error: `${error}` }),
    }),
  )
  await app.start()
  notReady = 'there is no certificate for the feed yet'
  await serveFeed(started, options, { ...app, peers }, certificates)
  notReady = ''
  log.info('start operator', { feed: config.feedPort, pages: config.operatorPort, pod: pod.name })
  const running = started.move()
  return {
    async stop() {
      api.close() // so that streams end with an event
      // Last good contents that are not stored yet are stored while this operator still has the Lease.
      await Promise.race([Promise.allSettled([app.stop()]), pause(lastWritesMs, undefined, { ref: false })])
      await leadership.stop() // before the rest, so that another operator acts soon
      await running.disposeAsync()
    },
  }
}

/**
 * Returns the installation. Its owner is the chart's ConfigMap, which only an uninstall deletes. It is not
 * the Deployment, whose deletion must not delete the services.
 */
async function findInstallation(
  client: KubeClient,
  config: ClusterConfig,
  { namespace, revision }: OwnPod,
): Promise<Installation> {
  const name = names.operatorName(config.name)
  const found = await client.get(coreResource('configmaps'), { namespace, name })
  const uid = found?.metadata.uid
  if (uid !== undefined) {
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name, uid }
    return { name: config.name, namespace, revision, owner }
  }
  const advice = 'the field "name" must be the name of the installation that this operator belongs to'
  throw new InfrastructureError(`find the owner: there is no ConfigMap ${namespace}/${name}; ${advice}`)
}

function openProvisioner(certificates: Certificates, { config, pod }: ClusterOptions) {
  const { name, payments } = config
  const url = new URL(`https://${names.paymentsHost(name, pod.namespace)}:${payments.provisionPort}`)
  const tls = certificates.clientTls(names.podIdentity(name, pod.namespace))
  return createProvisionClient({
    url,
    tls: () => ({ ...tls.credentials(), serverName: tls.serverName }),
  })
}

function openEvents(started: AsyncDisposableStack, client: KubeClient, pod: OwnPod, log: Log): EventRecorder {
  const events = createEventRecorder({
    client,
    reportingInstance: pod.name,
    newId: () => randomBytes(8).toString('hex'),
    onLost: (count, cause) => log.warn('record Events failed', { count, cause }),
  })
  started.defer(() => events.settled())
  return events
}

/** Opens the part that applies the workloads of the services while this operator leads. */
function openWorkloads(
  started: AsyncDisposableStack,
  {
    client,
    installation,
    infrastructure,
    mayWrite,
  }: Omit<WritingParts, 'events'> & {
    readonly infrastructure: KubernetesInfrastructure
  },
  { config, pod, log }: ClusterOptions,
) {
  const workloads = clusterWorkloads(config, pod.namespace)
    .filter(({ enabled }) => enabled)
    .map(({ workload }) => workload)
  const digests = createSecretDigests({
    workloads,
    get: secretAccess(client, { namespace: pod.namespace }).get,
    mayWrite,
    onProblem: cause => log.warn('read Secrets of workloads failed', { error: cause }),
    random: Math.random,
  })
  const provided = { config, client, installation, infrastructure, digests, mayWrite }
  const runner = openRunner('apply workloads', () => provideWorkloads(provided), log)
  digests.onChange(runner.trigger)
  started.defer(() => digests.stop())
  return {
    trigger: runner.trigger,
    /** The Secrets whose changes replace pods. */
    secretNames: digestedSecrets(workloads),
    checkSecrets: digests.checkNow,
    start() {
      digests.start()
      started.defer(() => runner.stop())
    },
  }
}

function openCertificates(
  client: KubeClient,
  installation: Installation,
  mayWrite: () => boolean,
  { config, log }: ClusterOptions,
): Certificates {
  const { name, namespace, owner } = installation
  const hosts = names.operatorHosts(name, namespace)
  return new Certificates({
    store: secretAccess(client, { namespace, metadata: { ownerReferences: [owner] } }),
    secretNames: secretNames(config),
    dnsNames: { server: hosts, client: [names.podIdentity(name, namespace)] },
    issuer: config.feedCertificates.issuer === 'operator' ? 'operator' : 'other',
    mayWrite,
    clock: systemClock,
    log,
    random: Math.random,
  })
}

function secretNames({ name }: ClusterConfig) {
  return {
    authority: names.authoritySecret(name),
    server: names.feedServerSecret(name),
    client: names.feedClientSecret(name),
  }
}

interface WritingParts {
  readonly client: KubeClient
  readonly installation: Installation
  readonly mayWrite: () => boolean
  readonly events: EventRecorder
}

function openInfrastructure(
  started: AsyncDisposableStack,
  { client, installation, mayWrite, events }: WritingParts,
  { config, log }: ClusterOptions,
): KubernetesInfrastructure {
  const infrastructure = new KubernetesInfrastructure({
    client,
    installation,
    shapeFor: service => makePodShape(config, service),
    mayWrite,
    onProblem: error => log.warn('apply objects failed', { error }),
    onContested({ object: regarding, message: note }) {
      events.record({ regarding, type: 'Warning', reason: 'Contested', action: 'Repair', note })
    },
    random: Math.random,
  })
  started.defer(() => infrastructure.close())
  return infrastructure
}

interface MeasuredParts {
  readonly leadership: { mayWrite(): boolean }
  readonly feed: Feed
  readonly kinds: readonly ClusterController[]
  readonly certificates: Certificates
  readonly infrastructure: Pick<KubernetesInfrastructure, 'contestedObjects' | 'observe'>
}

/** @param parts called each time the metrics are read */
function openMetrics(parts: () => MeasuredParts): OperatorMetrics {
  return createOperatorMetrics({
    contestedObjects: () => parts().infrastructure.contestedObjects().length,
    failingBackends: () =>
      Object.fromEntries(
        serviceNames.map(name => [name, failingReplicas(parts().infrastructure.observe(name)).length]),
      ),
    isLeader: () => parts().leadership.mayWrite(),
    connectedPods: () =>
      new Set(
        parts()
          .feed.clients()
          .map(({ uid }) => uid),
      ).size,
    statusesWaiting: () => parts().kinds.reduce((sum, { statuses }) => sum + statuses.waiting(), 0),
    resources: () => countReady(parts().kinds.flatMap(kind => kind.list())),
    failingKinds: () =>
      Object.fromEntries(parts().kinds.map(({ kind, problem }) => [kind.definition.kind, problem() !== ''])),
    certificateProblem: () => parts().certificates.problem(),
  })
}

function makeReport(
  { config, pod }: ClusterOptions,
  kinds: readonly ClusterController[],
  infrastructure: KubernetesInfrastructure,
  operators: Operators,
  certificateProblem: string,
): StatusReport {
  const { addresses, replicas, problems } = describeServices(config, pod.namespace, infrastructure)
  return makeClusterReport({
    nowMs: systemClock.nowMs(),
    revision: pod.revision,
    addresses,
    resources: kinds.map(({ kind, list }) => ({ kind, resources: list() })),
    replicas,
    problems: [
      ...problems,
      ...operators.problems(),
      ...kinds.flatMap(({ kind, problem }) =>
        problem() === '' ? [] : [{ origin: kind.definition.kind, message: problem() }],
      ),
      ...infrastructure.contestedObjects().map(({ object, message }) => ({
        origin: object.metadata.name,
        message,
        isWarning: true,
      })),
      ...(certificateProblem === '' ? [] : [{ origin: 'certificates', message: certificateProblem }]),
    ],
  })
}

function countReady(resources: readonly StoredResource[]) {
  const ready = resources.filter(({ status = {} }) => readyCondition(status)?.status === 'True').length
  return { ready, notReady: resources.length - ready }
}

async function servePages(
  started: AsyncDisposableStack,
  { config, pod }: ClusterOptions,
  pages: OperatorPages,
): Promise<void> {
  const server = createOperatorPages(pages)
  server.listen(config.operatorPort, pod.host)
  await once(server, 'listening')
  started.defer(() => closeHttp(server, lastAnswersMs))
}

/** How long unfinished answers may take when the operator stops. */
const lastAnswersMs = 200

/** How long the last writes of a stopping operator may delay the release of the Lease. */
const lastWritesMs = 2_000

/**
 * The age of a connection is limited because it keeps its first certificates, which are renewed within weeks.
 */
const feedConnection = { maxConnectionAgeMs: 24 * 3_600_000, maxConnectionAgeGraceMs: 3_600_000 }

interface ServedParts extends Pick<OperatorApp<ClusterController>, 'feed' | 'loads' | 'sessions'> {
  readonly peers: Peers
}

async function serveFeed(
  started: AsyncDisposableStack,
  { config, pod, log }: ClusterOptions,
  { feed, peers, loads, sessions }: ServedParts,
  certificates: Certificates,
): Promise<void> {
  await certificates.ready()
  const grpc = createGrpcServer({
    methods: [feed, loads, sessions].flatMap(({ methods }) => methods),
    limits: { ...feedConnection, maxReceiveBytes: maxMessageBytes },
    onDefect: (path, error) => log.error('answer call failed', { path, error: `${error}` }),
  })
  await grpc.listen({ host: pod.host, port: config.feedPort, tls: certificates.serverTls })
  started.defer(() => grpc.drain(0))
  for (const part of [sessions, peers, feed]) started.defer(async () => part.close())
}

interface OperatorPages {
  /** Returns why this operator does not serve the feed yet; empty if it does. */
  notReady(): string
  readonly metrics: Pick<OperatorMetrics, 'render' | 'contentType'>
  report(): StatusReport
  readonly api: Pick<OperatorApi, 'handle'>
}

/**
 * Returns the server of the operator's pages, API and console. `/healthz` says that the process runs,
 * `/readyz` that the feed is served; `/status` counts resources. None of them depends on the pods of the
 * services, because these depend on the feed.
 */
function createOperatorPages(pages: OperatorPages): Server {
  const handleConsole = createConsole()
  const answer: RequestListener = (request, response) => {
    const send = sendPage.bind(undefined, response)
    if (pages.api.handle(request, response) || handleConsole(request, response)) return
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(405, 'only GET is answered\n')
    switch (parseTarget(request).path) {
      case '/healthz':
        return send(200, 'OK\n')
      case '/readyz': {
        const reason = pages.notReady()
        return reason === '' ? send(200, 'OK\n') : send(503, `${reason}\n`)
      }
      case '/metrics':
        pages.metrics.render().then(
          text => send(200, text, pages.metrics.contentType),
          (error: unknown) => send(500, `${error}\n`),
        )
        return
      case '/status':
        // The page requires no password, so it leaves out the names of tenants' resources.
        return send(
          200,
          `${JSON.stringify(groupResources(pages.report()), undefined, 2)}\n`,
          'application/json',
        )
      default:
        return send(
          404,
          'no such page; there are /healthz, /readyz, /metrics, /status, /api/v1 and /console\n',
        )
    }
  }
  const server = createGuardedServer(answer, { maxHeaderSize: maxHeaderBytes })
  return answerClientErrors(server, clientErrorAnswer)
}
