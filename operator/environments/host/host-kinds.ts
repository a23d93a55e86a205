import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { createRunner } from '../../controller/runner.ts'
import type { BackendFailures } from '../../infrastructure/backend-failures.ts'
import type { Infrastructure } from '../../infrastructure/provider.ts'
import type { RateLimitDomain, StreamRoute } from '../../ir.ts'
import { animationStreamRoutes } from '../../kinds/animation-stream-route/animation-stream-route.ts'
import type { FedKind, Named } from '../../kinds/fed-kind.ts'
import { rateLimitConfigs } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { createFedResources } from '../../reconcilers/fed-resources.ts'
import type { Source } from '../../sources/source.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { createContentFeed } from '../../xds/content-feed.ts'
import type { StreamLoads } from '../../xds/loads/stream-loads.ts'
import type { Feed } from '../../xds/server.ts'
import { folderSecrets } from './folder/folder-secrets.ts'
import { type HostMerchantsOptions, openHostMerchants } from './host-merchants.ts'
import { openRememberedFile } from './remembered-file.ts'

export interface StandaloneKindsOptions {
  readonly source: Source
  readonly feed: Feed
  readonly loads: Pick<StreamLoads, 'of' | 'onChange'>
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  /** Why a workload is not to run; undefined for those that are. */
  readonly whySwitchedOff: (workload: string) => string | undefined
  readonly backends: Pick<BackendFailures, 'of' | 'onChange'>
  /** Where what outlives a restart is kept. */
  readonly rememberedPath: string
  readonly log: Log
  /** How Merchants are provisioned, and where their credentials are kept. */
  readonly merchants: Pick<HostMerchantsOptions, 'stateDir' | 'provisioner' | 'addresses'>
  /** Given the statuses of all kinds, after each look at any of them. */
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
}

/** The resources of all kinds on one machine: from the folder to the feed, and back. */
export interface StandaloneKinds {
  /** Resolves when all that is there now has been fed; from then on each change is followed. */
  start(): Promise<void>
  stop(): Promise<void>
  /** The limits that the feed carries. */
  limitsInForce(): readonly RateLimitDomain[]
  /** The routes that it carries. */
  routesInForce(): readonly StreamRoute[]
}

export function openStandaloneKinds(options: StandaloneKindsOptions): StandaloneKinds {
  const { source, feed, loads, infrastructure, backends, log } = options
  const limits = rateLimitConfigs()
  const routes = animationStreamRoutes({ secrets: folderSecrets(source), loadOf: loads.of })
  const kinds = [limits, routes]
  const remembered = openRememberedFile(options.rememberedPath, kinds, text => log.warn(text))
  const told = new Map<string, readonly ResourceStatus[]>()

  /** What is not known of all kinds yet would pass for ready. */
  function tell(kind: string, statuses: readonly ResourceStatus[]): void {
    told.set(kind, statuses)
    if (told.size > kinds.length) options.writeStatus([...told.values()].flat())
  }

  function open<Content extends Named, Fed extends object>(kind: FedKind<Content, Fed>) {
    const resources = createFedResources(kind, {
      source,
      remembered: remembered.of(kind),
      feed: createContentFeed(feed, kind), // tells the processes; hears what they make of it
      infrastructure,
      switchedOff: options.whySwitchedOff(kind.workload),
      backendFailure: backends.of,
      clock: systemClock,
      writeStatus: statuses => tell(kind.definition.kind, statuses),
    })
    const runner = createRunner({
      reconcile: resources.reconcile,
      onError: (error, retryMs) => {
        log.error('reconciling failed', { error: `${error}`, retryMs: Math.round(retryMs) })
      },
      random: Math.random,
    })
    return { ...resources, runner }
  }

  const merchants = openHostMerchants({
    ...options.merchants,
    source,
    log,
    backendFailure: () => backends.of('payments'),
    writeStatus: statuses => tell(merchantKind.kind, statuses),
  })
  const [ofLimits, ofRoutes] = [open(limits), open(routes)]
  const all = [ofLimits, ofRoutes]
  return {
    limitsInForce: ofLimits.inForce,
    routesInForce: ofRoutes.inForce,
    async start() {
      for (const { reconcile } of all) await reconcile()
      for (const { runner } of all) {
        for (const part of [source, feed, infrastructure, backends]) part.onChange(runner.trigger)
        runner.trigger()
      }
      loads.onChange(ofRoutes.runner.trigger)
      merchants.start()
      infrastructure.onChange(merchants.reconcileAll)
      backends.onChange(merchants.followBackend)
    },
    async stop() {
      await merchants.stop()
      for (const { runner } of all) await runner.stop()
    },
  }
}
