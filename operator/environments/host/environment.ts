import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import type { Controller, Environment, PublishedContents } from '../../app.ts'
import { createRunner } from '../../controller/runner.ts'
import type { Infrastructure } from '../../infrastructure/provider.ts'
import type { KindAdapter, Named } from '../../kinds/kind-adapter.ts'
import { createPublishedResources } from '../../kinds/published-resources.ts'
import { rememberedKinds } from '../../kinds/registry.ts'
import type { Source } from '../../kinds/source.ts'
import type { ServiceName } from '../../model.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { Feed } from '../../xds/feed.ts'
import { openRememberedFile, type RememberedFile } from './memory.ts'
import { type HostMerchantsOptions, openHostMerchants } from './merchants.ts'
import { folderSecrets } from './secrets.ts'

interface HostEnvironmentOptions {
  readonly source: Source
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly services: readonly ServiceName[]
  readonly whySwitchedOff: (workload: string) => string | undefined
  /** The file with the memories, which outlives a restart. */
  readonly rememberedPath: string
  readonly log: Log
  /** How Merchants are provisioned, and the folder for their credentials. */
  readonly merchants: Pick<HostMerchantsOptions, 'stateDir' | 'provisioner' | 'addresses'>
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
}

/** Returns the environment of one machine: manifests in a folder, processes, and files for state. */
export function hostEnvironment(options: HostEnvironmentOptions): Environment<Controller> {
  const { source, infrastructure, log } = options
  const remembered = openRememberedFile(options.rememberedPath, rememberedKinds, log.warn)
  const statuses = new Map<string, readonly ResourceStatus[]>()

  /**
   * Writes only when every kind has statuses, because a report without one of the kinds would count as ready.
   */
  function write(kind: string, ofKind: readonly ResourceStatus[]): void {
    statuses.set(kind, ofKind)
    if (statuses.size === resourceKinds.length) options.writeStatus([...statuses.values()].flat())
  }

  return {
    infrastructure,
    services: options.services,
    routeSecrets: folderSecrets(source),
    openKind: (kind, { feed, backends }) =>
      openHostController(kind, {
        source,
        infrastructure,
        log,
        remembered,
        feed,
        switchedOff: options.whySwitchedOff(kind.workload),
        backendFailure: backends.get,
        writeStatus: ofKind => write(kind.definition.kind, ofKind),
      }),
    openMerchants({ backends }) {
      const { start, stop, followBackend, reconcileAll } = openHostMerchants({
        ...options.merchants,
        source,
        log,
        backendFailure: () => backends.get('payments'),
        writeStatus: ofKind => write(merchantKind.kind, ofKind),
      })
      return {
        async start() {
          await start()
          infrastructure.onChange(reconcileAll)
        },
        trigger: followBackend,
        stop,
      }
    },
    async start(kinds) {
      for (const { start } of kinds) await start()
    },
  }
}

interface HostControllerOptions {
  readonly source: Source
  readonly remembered: RememberedFile
  readonly feed: Feed
  readonly infrastructure: Pick<Infrastructure, 'observe'>
  readonly switchedOff: string | undefined
  /** Returns the message of the condition Degraded if the workload's backend fails; otherwise undefined. */
  readonly backendFailure: (workload: string) => string | undefined
  readonly log: Log
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
}

function openHostController<Content extends Named, Published extends object>(
  kind: KindAdapter<Content, Published>,
  { source, remembered, feed, log, ...options }: HostControllerOptions,
): Controller & PublishedContents<Content> {
  const resources = createPublishedResources(kind, {
    ...options,
    source,
    remembered: remembered.of(kind),
    feed,
    clock: systemClock,
    recheckAfter: ms => runner.triggerAfter(ms),
  })
  const first = Promise.withResolvers<void>()
  const runner = createRunner({
    reconcile: () => resources.reconcile().finally(first.resolve),
    onError: (error, retryMs) => {
      log.error('reconcile resources failed', {
        kind: kind.definition.kind,
        error: `${error}`,
        retryMs: Math.round(retryMs),
      })
    },
    random: Math.random,
  })
  let isStarted = false
  return {
    inForce: resources.inForce,
    /** Resolves after the first reconcile, even if it failed and will be retried. */
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
