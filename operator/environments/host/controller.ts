import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Controller, FedController } from '../../app.ts'
import { createRunner } from '../../controller/runner.ts'
import type { Infrastructure } from '../../infrastructure/provider.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import { createFedResources } from '../../reconcilers/fed-resources.ts'
import type { Source } from '../../sources/source.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { createContentFeed } from '../../xds/content-feed.ts'
import type { Feed } from '../../xds/feed.ts'
import type { RememberedFile } from './memory.ts'

export interface HostControllerOptions {
  readonly source: Source
  readonly remembered: RememberedFile
  readonly feed: Feed
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  /** Why the workload does not run; undefined if it runs. */
  readonly switchedOff: string | undefined
  /** Returns the cause of a failing backend of a workload. */
  readonly backendFailure: (workload: string) => string | undefined
  readonly log: Log
  /** Called with the statuses of the kind after each reconcile. */
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
}

/** Opens the controller of one kind whose resources are manifests in a folder. */
export function openHostController<Content extends Named, Fed extends object>(
  kind: KindAdapter<Content, Fed>,
  { source, remembered, feed, log, ...options }: HostControllerOptions,
): Controller & FedController<Content> {
  const resources = createFedResources(kind, {
    ...options,
    source,
    remembered: remembered.of(kind),
    feed: createContentFeed(feed, kind),
    clock: systemClock,
    recheckAfter: ms => runner.triggerAfter(ms),
  })
  const first = Promise.withResolvers<void>()
  const runner = createRunner({
    reconcile: () => resources.reconcile().finally(first.resolve),
    onError: (error, retryMs) => {
      log.error('reconcile: failed', { error: `${error}`, retryMs: Math.round(retryMs) })
    },
    random: Math.random,
  })
  let isStarted = false
  return {
    inForce: resources.inForce,
    /** Resolves after the first reconcile, which is retried if it failed. */
    start() {
      isStarted = true
      source.onChange(runner.trigger)
      runner.trigger()
      return first.promise
    },
    trigger() {
      if (isStarted) runner.trigger()
    },
    stop() {
      first.resolve()
      return runner.stop()
    },
  }
}
