import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { ClientTls } from '@tollway/grpc/client-tls.ts'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { type Certificates, createCertificates } from './certificates/certificates.ts'
import { makeClusterReport } from './cluster/cluster-report.ts'
import { createOperatorMetrics, type OperatorMetrics } from './cluster/metrics.ts'
import * as names from './cluster/names.ts'
import { createOperatorPages, type OperatorPages } from './cluster/operator-pages.ts'
import { createPropagationWatch } from './cluster/propagation.ts'
import { clusterRateLimitWorkload } from './cluster/rate-limit-workload.ts'
import { rememberInStatus } from './cluster/remembered-in-status.ts'
import { createStatusWriter, type StatusWriter, type StatusWriterOptions } from './cluster/status-writer.ts'
import { readyCondition, type StoredResource } from './cluster/stored-resource.ts'
import { createLeaseElector, type LeaseElector } from './controller/lease-elector.ts'
import { createReflector } from './controller/reflector.ts'
import { createRunner, type Runner } from './controller/runner.ts'
import {
  createKubernetesInfrastructure,
  type KubernetesInfrastructure,
} from './infrastructure/kubernetes/kubernetes.ts'
import { objectName, type Place } from './infrastructure/kubernetes/objects/place.ts'
import { InfrastructureError } from './infrastructure/provider.ts'
import type { ApiAccess } from './kube/access.ts'
import { createKubeClient, type KubeClient } from './kube/client.ts'
import { collectionOf } from './kube/collection.ts'
import { apiVersion, applyStatusOf, rateLimitConfigs } from './kube/custom-resources.ts'
import { createEventRecorder } from './kube/events.ts'
import type { KubeObject } from './kube/kube-object.ts'
import { leaseAccess } from './kube/leases.ts'
import { secretAccess } from './kube/secrets.ts'
import { createRateLimitConfigs } from './reconcilers/rate-limit-configs.ts'
import { createKubernetesSource } from './sources/kubernetes.ts'
import type { Source } from './sources/source.ts'
import type { StatusReport } from './standalone/status-report.ts'
import { rateLimitTypeUrl } from './xds/encode-rate-limit-domain.ts'
import { createPeerReporter, type PeerReporter } from './xds/peers/peer-reporter.ts'
import { createPeers, type Peers } from './xds/peers/peers.ts'
import { createRateLimitFeed } from './xds/rate-limit-feed.ts'
import { createFeed, type Feed } from './xds/server.ts'

export interface ClusterOptions {
  readonly config: ClusterConfig
  readonly access: ApiAccess
  readonly pod: OwnPod
  readonly log: Log
}

/** What this operator's pod is told of itself. */
export interface OwnPod {
  readonly name: string
  readonly namespace: string
  /** By which the other operators reach it. */
  readonly ip: string
  /** Where it listens. */
  readonly host: string
}

/**
 * Runs one of the operators of a cluster, and resolves when it serves the feed. All of them follow the resources
 * and serve the same feed; the one that holds the lease writes. Everything below reads what stands above it.
 * Rejects with an `InfrastructureError` when the cluster lacks something; nothing that it started is left then.
 */
export async function startInCluster(options: ClusterOptions): Promise<{ stop(): Promise<void> }> {
  const { config, pod, log } = options
  await using started = new AsyncDisposableStack()
  const metrics = openMetrics(() => ({ leadership, feed, statuses, resources, certificates }))
  const client = createKubeClient(options.access, { random: Math.random, onRequest: metrics.requested })
  started.defer(async () => client.close())
  const place = await ownPlace(client, config, pod)
  const leadership = openLeadership(client, place, options) // tells who of the operators writes
  started.defer(() => leadership.stop())
  const resources = followResources(client, config, log) // what shall be
  started.defer(() => resources.source.stop())
  const certificates = openCertificates(client, place, leadership.mayWrite, log)
  started.defer(() => certificates.stop())
  // Makes pods, and tells how they are.
  const infrastructure = openInfrastructure(client, place, options, leadership.mayWrite)
  started.defer(() => infrastructure.close())
  const operatorName = names.feedHost(config.name, pod.namespace)
  // Hears from the other operators.
  const peers = createPeers({ operatorName, ids: randomUUID, clock: systemClock, log })
  const feed = openFeed(peers, log)
  const { statuses, remembered } = openStatuses(started, client, options, resources, {
    mayWrite: leadership.mayWrite,
    onWritten: metrics.statusWritten,
  })
  const propagation = createPropagationWatch(systemClock, metrics.propagated)
  const configs = createRateLimitConfigs({
    source: resources.source,
    remembered,
    feed: createRateLimitFeed(feed), // tells the pods; hears what they make of it
    infrastructure,
    clock: systemClock,
    reservations: new Map(config.domainGrants.map(({ domain, namespaces }) => [domain, namespaces])),
    storedConditions: statuses.conditionsOf,
    writeStatus(all) {
      propagation(all)
      statuses.write(all)
    },
  })
  const reconciling = openRunner('reconciling failed', timed(configs.reconcile, metrics.reconciled), log)
  const providing = openRunner(
    'a workload is not as it should be',
    () => provide(infrastructure, options),
    log,
  )

  const reporter = openReporter(feed, certificates.clientTls(operatorName), leadership, log)
  started.defer(() => reporter.stop())

  let notReady = 'the resources have not been read yet'
  const report = () => describe(options, resources.list(), infrastructure, certificates.problem())
  await servePages(started, options, { notReady: () => notReady, metrics, report })
  leadership.start({
    onStarted() {
      certificates.lookNow()
      providing.trigger()
      statuses.lookAtAll()
    },
    onStopped: infrastructure.standDown,
    onRival: reporter.setLeader,
  })
  certificates.start()
  await resources.source.start()
  await configs.reconcile()
  started.defer(() => reconciling.stop())
  started.defer(() => providing.stop())
  for (const part of [resources.source, feed, infrastructure]) part.onChange(reconciling.trigger)
  resources.onChange(uid => statuses.lookAt(uid))
  reconciling.trigger()
  notReady = 'there is no certificate for the feed yet'
  await serveFeed(started, options, [...feed.methods, ...peers.methods], certificates)
  started.defer(() => peers.close())
  started.defer(() => feed.close())
  notReady = ''
  log.info('serving', { feed: config.feedPort, pages: config.operatorPort, pod: pod.name })
  const running = started.move()
  return {
    async stop() {
      await leadership.stop() // first of all, so that another operator acts soon
      await running.disposeAsync()
    },
  }
}

const deployments = { group: 'apps', version: 'v1', plural: 'deployments', namespaced: true }

/** The Deployment that this pod belongs to owns all that is made. */
async function ownPlace(client: KubeClient, config: ClusterConfig, { namespace }: OwnPod): Promise<Place> {
  const name = names.operatorName(config.name)
  const found = await client.get(deployments, { namespace, name })
  const uid = found?.metadata.uid
  if (uid !== undefined) {
    return { name: config.name, namespace, owner: { apiVersion: 'apps/v1', kind: 'Deployment', name, uid } }
  }
  const advice = 'the configuration must name the installation whose Deployment runs this operator'
  throw new InfrastructureError(`there is no Deployment ${namespace}/${name}; name: ${advice}`)
}

interface Term {
  readonly onStarted: () => void
  readonly onStopped: () => Promise<void>
  /** Given the address of the feed of the operator that writes, when that is another one. */
  readonly onRival: (address: string | undefined) => void
}

function openFeed(elsewhere: Peers, log: Log): Feed {
  return createFeed({ typeUrls: [rateLimitTypeUrl], ids: randomUUID, clock: systemClock, log, elsewhere })
}

/** Which of the operators writes. What it does then is known only when all parts are there. */
function openLeadership(client: KubeClient, place: Place, { config, pod, log }: ClusterOptions) {
  const { durationSeconds, renewDeadlineSeconds, retrySeconds } = config.lease
  const identity = names.leaseIdentity(pod, randomBytes(4).toString('hex'))
  let elector: LeaseElector | undefined
  return {
    identity,
    mayWrite: () => elector?.isLeader() ?? false,
    lookNow: () => elector?.lookNow(),
    start(term: Term): void {
      elector = createLeaseElector({
        lease: leaseAccess(client, { namespace: pod.namespace, name: names.leaseName(config.name) }, [
          place.owner,
        ]),
        identity,
        onStarted() {
          log.info('this operator is the one that writes')
          term.onStarted()
        },
        async onStopped() {
          log.info('this operator is no longer the one that writes')
          await term.onStopped()
        },
        onRival(holder) {
          const ip = holder === undefined ? undefined : names.addressOfHolder(holder)
          term.onRival(ip && (ip.includes(':') ? `[${ip}]:${config.feedPort}` : `${ip}:${config.feedPort}`))
        },
        onError: error => log.warn('the lease could not be looked at', { error: `${error}` }),
        random: Math.random,
        timing: {
          leaseMs: durationSeconds * 1000,
          renewDeadlineMs: renewDeadlineSeconds * 1000,
          retryMs: retrySeconds * 1000,
        },
      })
      elector.start()
    },
    async stop(): Promise<void> {
      const stopping = elector
      elector = undefined
      await stopping?.stop()
    },
  }
}

/** Lost events are made good within so long, by another list. */
const resourceTiming = { shortestWatchSeconds: 26, longestWatchSeconds: 30, relistMs: 24_000 }

interface FollowedResources {
  readonly source: Source
  list(): readonly StoredResource[]
  get(namespace: string, name: string): StoredResource | undefined
  /** Called with the uid of each resource of which anything changed, its status too. */
  onChange(listener: (uid: string) => void): void
}

function followResources(client: KubeClient, config: ClusterConfig, log: Log): FollowedResources {
  const reflector = createReflector({
    source: collectionOf(client, rateLimitConfigs),
    namespaces: config.watchNamespaces.length === 0 ? 'all' : config.watchNamespaces,
    keep: withoutManagedFields,
    onError: (error, retryMs) =>
      log.warn('the resources could not be followed', { error: `${error}`, retryMs: Math.round(retryMs) }),
    random: Math.random,
    timing: resourceTiming,
  })
  return {
    source: createKubernetesSource([{ apiVersion, kind: rateLimitConfigs.kind, ...reflector }]),
    list: () => reflector.list() as readonly StoredResource[],
    get: (namespace, name) => reflector.get(namespace, name) as StoredResource | undefined,
    onChange(listener) {
      reflector.onChange((namespace, name) => {
        const uid = reflector.get(namespace, name)?.metadata.uid
        if (uid !== undefined) listener(uid)
      })
    },
  }
}

/** They are half of an object, and nobody here looks at them. */
function withoutManagedFields(object: KubeObject): KubeObject {
  const { managedFields: _, ...metadata } = object.metadata
  return { ...object, metadata }
}

function openCertificates(client: KubeClient, place: Place, mayWrite: () => boolean, log: Log): Certificates {
  const { name, namespace, owner } = place
  const hosts = names.operatorHosts(name, namespace)
  return createCertificates({
    store: secretAccess(client, { namespace, metadata: { ownerReferences: [owner] } }),
    secretNames: {
      authority: names.authoritySecret(name),
      server: names.feedServerSecret(name),
      client: names.feedClientSecret(name),
    },
    dnsNames: { server: hosts, client: [names.podIdentity(name, namespace)] },
    mayWrite,
    clock: systemClock,
    log,
    random: Math.random,
  })
}

function openInfrastructure(
  client: KubeClient,
  place: Place,
  { config, log }: ClusterOptions,
  mayWrite: () => boolean,
): KubernetesInfrastructure {
  return createKubernetesInfrastructure({
    client,
    place,
    shapeFor: service => ({ ratelimit: config.rateLimit })[service].pods,
    mayWrite,
    onProblem: message => log.warn(message),
    random: Math.random,
  })
}

function openStatuses(
  started: AsyncDisposableStack,
  client: KubeClient,
  { pod, log }: ClusterOptions,
  resources: FollowedResources,
  writing: Pick<StatusWriterOptions, 'mayWrite' | 'onWritten'>,
) {
  const remembered = rememberInStatus(resources.list)
  const events = createEventRecorder({
    client,
    reportingInstance: pod.name,
    newId: () => randomBytes(8).toString('hex'),
    onError: error => log.debug('an event was not told', { error: `${error}` }),
  })
  started.defer(() => events.settled())
  const statuses = createStatusWriter({
    ...writing,
    stored: resources.get,
    memoryOf: remembered.of,
    apply: async (resource, status) =>
      (await applyStatusOf(client, rateLimitConfigs, resource, status)) as StoredResource,
    onTransition({ metadata }, { status, reason, message }) {
      const regarding = { apiVersion, kind: rateLimitConfigs.kind, metadata }
      const type = status === 'True' ? 'Normal' : 'Warning'
      events.record({ regarding, type, reason, action: 'Reconcile', note: message })
    },
    onError: (name, error, retryMs) =>
      log.warn('a status could not be written', { name, error: `${error}`, retryMs: Math.round(retryMs) }),
    random: Math.random,
  })
  started.defer(() => statuses.stop())
  return { statuses, remembered }
}

/** Tells the operator that writes what the pods of this one acknowledged. */
function openReporter(
  feed: Feed,
  tls: ClientTls,
  { identity, lookNow }: { readonly identity: string; lookNow(): void },
  log: Log,
): PeerReporter {
  return createPeerReporter({
    feed,
    tls,
    reporter: identity,
    log,
    onUnreachable: lookNow,
    clock: systemClock,
    random: Math.random,
  })
}

interface MeasuredParts {
  readonly leadership: { mayWrite(): boolean }
  readonly feed: Feed
  readonly statuses: StatusWriter
  readonly resources: FollowedResources
  readonly certificates: Certificates
}

/** @param parts are there when somebody first looks at the metrics. */
function openMetrics(parts: () => MeasuredParts): OperatorMetrics {
  return createOperatorMetrics({
    isLeader: () => parts().leadership.mayWrite(),
    connectedPods: () =>
      new Set(
        parts()
          .feed.clients()
          .map(({ uid }) => uid),
      ).size,
    statusesWaiting: () => parts().statuses.waiting(),
    resources: () => countReady(parts().resources.list()),
    certificateProblem: () => parts().certificates.problem(),
  })
}

function openRunner(failure: string, reconcile: () => Promise<void>, log: Log): Runner {
  return createRunner({
    reconcile,
    onError: (error, retryMs) => log.error(failure, { error: `${error}`, retryMs: Math.round(retryMs) }),
    random: Math.random,
  })
}

function timed(reconcile: () => Promise<void>, observe: (seconds: number, ok: boolean) => void) {
  return async () => {
    const beginMs = performance.now()
    let ok = false
    try {
      await reconcile()
      ok = true
    } finally {
      observe((performance.now() - beginMs) / 1000, ok)
    }
  }
}

/** Only who leads writes; after a term begins this is done anew. */
async function provide(
  infrastructure: KubernetesInfrastructure,
  { config, pod }: ClusterOptions,
): Promise<void> {
  const workload = clusterRateLimitWorkload(config, pod.namespace)
  if (config.rateLimit.enabled) await infrastructure.apply(workload)
  else await infrastructure.remove(workload.name)
}

function describe(
  { config, pod }: ClusterOptions,
  resources: readonly StoredResource[],
  infrastructure: KubernetesInfrastructure,
  certificateProblem: string,
): StatusReport {
  const workload = 'ratelimit'
  const {
    wanted = 1,
    ready = 0,
    message = 'it has not been made yet',
  } = infrastructure.progress(workload) ?? {}
  const isMissing = config.rateLimit.enabled && ready < wanted
  const host = `${objectName(config, workload)}.${pod.namespace}.svc`
  const httpHost = `${objectName(config, workload, 'http')}.${pod.namespace}.svc`
  return makeClusterReport({
    nowMs: systemClock.nowMs(),
    addresses: {
      grpc: `${host}:${config.rateLimit.grpcPort}`,
      http: `http://${httpHost}:${config.rateLimit.httpPort}`,
    },
    resources,
    replicas: infrastructure.observe(workload),
    problems: [
      ...(isMissing
        ? [{ origin: workload, message: `${ready} of ${wanted} pods are ready: ${message}` }]
        : []),
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
  {
    notReady,
    metrics,
    report,
  }: Pick<OperatorPages, 'notReady' | 'report'> & { readonly metrics: OperatorMetrics },
): Promise<void> {
  const pages = createOperatorPages({
    notReady,
    metrics: metrics.render,
    metricsType: metrics.contentType,
    report,
  })
  pages.listen(config.operatorPort, pod.host)
  await once(pages, 'listening')
  started.defer(() => {
    pages.close()
    pages.closeAllConnections()
  })
}

/** A connection goes on with the certificates that it began with, which are renewed within weeks. */
const feedConnection = { maxConnectionAgeMs: 24 * 3_600_000, maxConnectionAgeGraceMs: 3_600_000 }

async function serveFeed(
  started: AsyncDisposableStack,
  { config, pod, log }: ClusterOptions,
  methods: readonly AnyMethod[],
  certificates: Certificates,
): Promise<void> {
  await certificates.ready()
  const grpc = createGrpcServer({
    methods,
    limits: feedConnection,
    onDefect: (path, error) => log.error('a call met a defect', { path, error: `${error}` }),
  })
  await grpc.listen({ host: pod.host, port: config.feedPort, tls: certificates.serverTls })
  started.defer(() => grpc.drain(0))
}
