import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { apiVersion } from '@tollway/crds/resource-kind.ts'
import type { Controller, PublishedContents } from '../../app.ts'
import { createLastErrors } from '../../controller/last-errors.ts'
import { createRunner, type Runner } from '../../controller/runner.ts'
import type { BackendFailures } from '../../infrastructure/backend-failures.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import { createPublishedResources } from '../../kinds/published-resources.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { Feed } from '../../xds/feed.ts'
import type { KubeClient } from './api/client.ts'
import { applyWholeStatus, customResource } from './api/custom-resources.ts'
import type { EventRecorder } from './api/events.ts'
import { type FollowedKind, followKind } from './followed-kind.ts'
import type { KubernetesInfrastructure } from './infrastructure/kubernetes.ts'
import type { Installation } from './infrastructure/objects/installation.ts'
import { decodeLastGood, LastGoodStore } from './last-good/last-good-store.ts'
import { rememberInObjects } from './memory.ts'
import type { OperatorMetrics } from './metrics.ts'
import { createPropagationWatch } from './status/propagation.ts'
import { StatusWriter } from './status/status-writer.ts'
import { isOtherChoice, type StoredResource } from './status/stored-resource.ts'

/** Controls one kind in a cluster, from the API server to the feed and back. */
export interface ClusterController extends Controller {
  readonly kind: ReportedKind
  list(): readonly StoredResource[]
  /**
   * Resolves when all resources have been read and reconciled once; later changes are followed. Also resolves
   * if that fails: the failure is logged and the attempt repeated.
   */
  start(): Promise<void>
  /** Returns the errors of requests to the API server that will be repeated; empty if there are none. */
  problem(): string
  readonly statuses: Pick<StatusWriter, 'recheckAll' | 'waiting'>
}

/** What reports need of a kind. */
export type ReportedKind = Pick<KindAdapter, 'definition' | 'counts' | 'readSubject'> & {
  /** Reads the details from a stored status, which another version may have written. */
  readDetails?(status: Readonly<Record<string, unknown>>): Readonly<Record<string, string>>
}

interface ClusterControllerOptions {
  readonly client: KubeClient
  /** The watched namespaces; empty for all namespaces. */
  readonly watchNamespaces: readonly string[]
  readonly feed: Feed
  readonly infrastructure: Pick<KubernetesInfrastructure, 'observe' | 'obstacle'>
  readonly whySwitchedOff: (workload: string) => string | undefined
  readonly backends: Pick<BackendFailures, 'get'>
  readonly mayWrite: () => boolean
  readonly metrics: Pick<OperatorMetrics, 'statusWritten' | 'propagated' | 'reconciled'>
  /** The last good contents are stored in the namespace of this installation. */
  readonly installation: Installation
  /** All kinds share it, so that one rate limit applies to all Events. */
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Log
}

export function openClusterController<Content extends Named, Published extends object>(
  kind: KindAdapter<Content, Published>,
  options: ClusterControllerOptions,
): ClusterController & PublishedContents<Content> {
  const { client, watchNamespaces, feed, infrastructure, metrics, mayWrite, log } = options
  const followed = followKind(client, customResource(kind.definition), watchNamespaces, log)
  const store = openStore(kind, options, () => {
    const moved = followed.list().filter(({ status }) => status?.lastGood !== undefined)
    for (const { metadata } of moved) statuses.recheck(metadata.uid ?? '')
  })
  const remembered = rememberInObjects(kind, store, followed.list)
  const errors = createLastErrors()
  const statuses = openStatuses(kind, followed, store, options)
  const propagation = createPropagationWatch(systemClock, metrics.propagated)
  const resources = createPublishedResources(kind, {
    source: followed.source,
    remembered,
    feed,
    infrastructure,
    switchedOff: options.whySwitchedOff(kind.workload),
    backendFailure: options.backends.get,
    obstacle: workload => infrastructure.obstacle(workload),
    clock: systemClock,
    recheckAfter: ms => runner.triggerAfter(ms),
    storedConditions: resource => statuses.storedConditions(resource),
    writeStatus(all) {
      chosen = new Map(all.map(status => [status.uid, status]))
      propagation(all)
      statuses.write(all)
    },
  })
  const reconcile = timed(resources.reconcile, metrics.reconciled)
  const firstRun = Promise.withResolvers<void>()
  let isRead = false
  let isStopped = false
  let isSettling = false
  /** The statuses of the last reconciliation, by uid. */
  let chosen: ReadonlyMap<string, ResourceStatus> = new Map()

  /** Returns whether the leader has chosen otherwise about a resource than this operator. */
  function isDisputed({ metadata: { uid = '' }, status }: StoredResource): boolean {
    const own = chosen.get(uid)
    return own !== undefined && status !== undefined && !mayWrite() && isOtherChoice(status, own)
  }

  /**
   * Reads the resources, and then the contents that earlier operators stored. Without the stored contents, an
   * invalid resource would lose its last good version.
   */
  async function readAll(): Promise<void> {
    await followed.source.start()
    await remembered.read()
    isRead = true
    followed.source.onChange(runner.trigger)
    followed.onChange((uid, resource) => {
      statuses.recheck(uid)
      if (isDisputed(resource)) void settleDisputes()
    })
  }

  async function readStored(): Promise<void> {
    await remembered.read(isDisputed)
    runner.trigger()
  }

  /**
   * Takes over what the leader has stored, beside the reconciliations, until this operator chooses as the
   * leader does: the leader stores what it has chosen up to some seconds afterwards.
   */
  async function settleDisputes(): Promise<void> {
    if (isSettling) return
    isSettling = true
    try {
      while (!isStopped && followed.list().some(isDisputed)) {
        await readStored()
        await pause(readAgainMs, undefined, { ref: false })
      }
    } catch (error) {
      log.warn('read last good versions failed', { error: `${error}` })
    } finally {
      isSettling = false
    }
  }

  async function run(): Promise<void> {
    try {
      if (!isRead) await errors.watch('read the resources', readAll())
      // A stopped source lists nothing, and an empty feed would disable all rules.
      if (isStopped) return
      await errors.watch('reconcile the resources', reconcile())
      void settleDisputes()
    } finally {
      firstRun.resolve()
    }
  }

  const runner = openRunner('reconcile resources', run, log, { kind: kind.definition.kind })

  return {
    kind: kind as unknown as ReportedKind,
    list: followed.list,
    inForce: resources.inForce,
    problem: () =>
      [errors.current(), followed.problem(), statuses.problem()].filter(text => text !== '').join('; '),
    start() {
      runner.trigger()
      return firstRun.promise
    },
    trigger: runner.trigger,
    statuses: {
      waiting: () => statuses.waiting(),
      recheckAll() {
        statuses.recheckAll()
        store.writeAll()
        // What the last leader has stored last, this operator may not have read.
        if (isRead) readStored().catch(() => {})
      },
    },
    async stop() {
      // A run that waits for the first list ends when the source stops.
      isStopped = true
      const stopping = runner.stop()
      await followed.source.stop()
      await stopping
      await store.stop()
      await statuses.stop()
    },
  }
}

/**
 * How long kinds other than the first may delay the start: a cluster may lack the definition of such a kind.
 */
const kindStartMs = 5_000

/**
 * Starts all kinds. Resolves when the first kind has started, and each of the others has started or
 * `kindStartMs` has passed. Pods keep the contents of a kind that cannot be read, and get the contents of the
 * other kinds.
 */
export async function startKinds(
  [first, ...others]: readonly ClusterController[],
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const starting = others.map(other => startWithin(kindStartMs, other, log))
  await first?.start()
  await Promise.all(starting)
}

async function startWithin(
  timeoutMs: number,
  { kind, start }: ClusterController,
  log: Pick<Log, 'warn'>,
): Promise<void> {
  const timeout = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    log.warn('read kind failed', {
      kind: kind.definition.kind,
      error: `no answer within ${timeoutMs} ms; does its definition exist?`,
    })
    timeout.resolve()
  }, timeoutMs)
  await Promise.race([start(), timeout.promise])
  clearTimeout(timer)
}

/** The time between two reads of what the leader has stored, while it has chosen otherwise. */
const readAgainMs = 5_000

function openStore(
  kind: Pick<KindAdapter, 'definition' | 'isContent'>,
  { client, installation, mayWrite, log }: ClusterControllerOptions,
  onStored: () => void,
): LastGoodStore {
  return new LastGoodStore({
    client,
    installation,
    plural: kind.definition.plural,
    mayWrite,
    isReadable: ({ text }, { origin }) => decodeLastGood(kind, text, origin) !== undefined,
    onStored,
    onError(error, retryMs) {
      const details = { kind: kind.definition.kind, error: `${error}`, retryMs: Math.round(retryMs) }
      log.warn('store last good versions failed', details)
    },
    random: Math.random,
  })
}

function openStatuses(
  kind: Pick<KindAdapter, 'definition' | 'counts'>,
  followed: FollowedKind,
  store: Pick<LastGoodStore, 'isStored'>,
  { client, mayWrite, metrics, events, log }: ClusterControllerOptions,
): StatusWriter {
  const resource = customResource(kind.definition)
  return new StatusWriter({
    stored: followed.get,
    keepsLastGood: uid => !store.isStored(uid),
    loads: kind.counts.filter(({ isLoad }) => isLoad).map(({ field }) => field),
    apply: async (stored, status) =>
      (await applyWholeStatus(client, resource, stored, status)) as StoredResource,
    mayWrite,
    onWritten: metrics.statusWritten,
    onTransition({ metadata }, { status, reason, message }) {
      const regarding = { apiVersion, kind: resource.kind, metadata }
      const type = status === 'True' ? 'Normal' : 'Warning'
      events.record({ regarding, type, reason, action: 'Reconcile', note: message })
    },
    onError(name, error, retryMs) {
      log.warn('write status failed', { name, error: `${error}`, retryMs: Math.round(retryMs) })
    },
    random: Math.random,
  })
}

/** @param task what a run does, for the log: `reconcile resources` */
export function openRunner(
  task: string,
  reconcile: () => Promise<void>,
  log: Log,
  fields: Readonly<Record<string, string>> = {},
): Runner {
  return createRunner({
    reconcile,
    onError: (error, retryMs) =>
      log.error(`${task} failed`, { ...fields, error: `${error}`, retryMs: Math.round(retryMs) }),
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
