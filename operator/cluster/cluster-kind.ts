import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createRunner, type Runner } from '../controller/runner.ts'
import type { Place } from '../infrastructure/kubernetes/objects/place.ts'
import type { Infrastructure } from '../infrastructure/provider.ts'
import type { FedKind, Named } from '../kinds/fed-kind.ts'
import type { KubeClient } from '../kube/client.ts'
import { apiVersion, applyStatusOf, customResource } from '../kube/custom-resources.ts'
import type { EventRecorder } from '../kube/events.ts'
import { createFedResources } from '../reconcilers/fed-resources.ts'
import { createContentFeed } from '../xds/content-feed.ts'
import type { Feed } from '../xds/server.ts'
import { type FollowedKind, followKind } from './followed-kind.ts'
import { decodeLastGood } from './last-good/last-good.ts'
import { createLastGoodStore, type LastGoodStore } from './last-good/last-good-store.ts'
import { rememberInObjects } from './last-good/remember-in-objects.ts'
import type { OperatorMetrics } from './metrics.ts'
import { createPropagationWatch } from './propagation.ts'
import { createStatusWriter, type StatusWriter } from './status-writer.ts'
import type { StoredResource } from './stored-resource.ts'

/** All that happens to the resources of one kind in a cluster: from the API server to the feed, and back. */
export interface ClusterKind {
  readonly kind: ReportedKind
  /** As they are stored. */
  list(): readonly StoredResource[]
  /** Resolves when they have been read as a whole and fed; from then on each change is followed. */
  start(): Promise<void>
  /** Something beside the resources may have changed. */
  trigger(): void
  readonly statuses: Pick<StatusWriter, 'lookAtAll' | 'waiting'>
  stop(): Promise<void>
}

/** What a report needs to know of a kind. */
export type ReportedKind = Pick<FedKind, 'definition' | 'counts' | 'subjectOf'> & {
  /** What its statuses tell beside. */
  detailsOf?(status: Readonly<Record<string, unknown>>): Readonly<Record<string, string>>
}

export interface ClusterKindOptions {
  readonly client: KubeClient
  /** Empty for all. */
  readonly watchNamespaces: readonly string[]
  readonly feed: Feed
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  /** Why a workload is not to run; undefined for those that are. */
  readonly whySwitchedOff: (workload: string) => string | undefined
  readonly mayWrite: () => boolean
  readonly metrics: Pick<OperatorMetrics, 'statusWritten' | 'propagated' | 'reconciled'>
  /** The installation, in whose namespace the last good contents are stored. */
  readonly place: Place
  /** Shared by all kinds, so that they keep one rate together. */
  readonly events: Pick<EventRecorder, 'record'>
  readonly log: Log
}

export function openClusterKind<Content extends Named, Fed extends object>(
  kind: FedKind<Content, Fed>,
  options: ClusterKindOptions,
): ClusterKind {
  const { client, watchNamespaces, feed, infrastructure, metrics, log } = options
  const followed = followKind(client, customResource(kind.definition), watchNamespaces, log)
  const store = openStore(kind, options, () => {
    const moved = followed.list().filter(({ status }) => status?.lastGood !== undefined)
    for (const { metadata } of moved) statuses.lookAt(metadata.uid ?? '')
  })
  const remembered = rememberInObjects(kind, store, followed.list)
  const statuses = openStatuses(kind, followed, store, options)
  const propagation = createPropagationWatch(systemClock, metrics.propagated)
  const resources = createFedResources(kind, {
    source: followed.source,
    remembered,
    feed: createContentFeed(feed, kind), // tells the pods; hears what they make of it
    infrastructure,
    switchedOff: options.whySwitchedOff(kind.workload),
    clock: systemClock,
    storedConditions: statuses.conditionsOf,
    writeStatus(all) {
      propagation(all)
      statuses.write(all)
    },
  })
  const runner = openRunner('reconciling failed', timed(resources.reconcile, metrics.reconciled), log)
  let isStarted = false

  return {
    kind: kind as unknown as ReportedKind,
    list: followed.list,
    async start() {
      await followed.source.start()
      await remembered.read()
      await resources.reconcile()
      isStarted = true
      followed.source.onChange(runner.trigger)
      followed.onChange(statuses.lookAt)
      runner.trigger()
    },
    trigger() {
      // An empty feed would switch everything off.
      if (isStarted) runner.trigger()
    },
    statuses: {
      waiting: statuses.waiting,
      lookAtAll() {
        statuses.lookAtAll()
        store.lookAtAll()
      },
    },
    async stop() {
      await runner.stop()
      await followed.source.stop()
      await store.stop()
      await statuses.stop()
    },
  }
}

function openStore(
  kind: Pick<FedKind, 'definition' | 'isContent'>,
  { client, place, mayWrite, log }: ClusterKindOptions,
  onStored: () => void,
): LastGoodStore {
  return createLastGoodStore({
    client,
    place,
    plural: kind.definition.plural,
    mayWrite,
    isReadable: ({ text }, { origin }) => decodeLastGood(kind, text, origin) !== undefined,
    onStored,
    onError(error, retryMs) {
      const details = { kind: kind.definition.kind, error: `${error}`, retryMs: Math.round(retryMs) }
      log.warn('read or write the last good versions', details)
    },
    random: Math.random,
  })
}

function openStatuses(
  kind: Pick<FedKind, 'definition' | 'counts'>,
  followed: FollowedKind,
  store: Pick<LastGoodStore, 'isStored'>,
  { client, mayWrite, metrics, events, log }: ClusterKindOptions,
): StatusWriter {
  const resource = customResource(kind.definition)
  return createStatusWriter({
    stored: followed.get,
    keepsLastGood: uid => !store.isStored(uid),
    loads: kind.counts.filter(({ isLoad }) => isLoad).map(({ field }) => field),
    apply: async (stored, status) =>
      (await applyStatusOf(client, resource, stored, status)) as StoredResource,
    mayWrite,
    onWritten: metrics.statusWritten,
    onTransition({ metadata }, { status, reason, message }) {
      const regarding = { apiVersion, kind: resource.kind, metadata }
      const type = status === 'True' ? 'Normal' : 'Warning'
      events.record({ regarding, type, reason, action: 'Reconcile', note: message })
    },
    onError: (name, error, retryMs) =>
      log.warn('a status could not be written', { name, error: `${error}`, retryMs: Math.round(retryMs) }),
    random: Math.random,
  })
}

export function openRunner(failure: string, reconcile: () => Promise<void>, log: Log): Runner {
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
