import { randomBytes } from 'node:crypto'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { LeaseElector } from '../../controller/lease-elector.ts'
import * as names from '../../services/cluster-names.ts'
import type { KubeClient } from './api/client.ts'
import { leaseAccess } from './api/leases.ts'
import type { Place } from './infrastructure/objects/place.ts'

export interface LeadershipOptions {
  readonly client: KubeClient
  readonly place: Place
  readonly config: Pick<ClusterConfig, 'name' | 'feedPort' | 'lease'>
  readonly pod: Parameters<typeof names.leaseIdentity>[0]
  readonly log: Log
}

/** The events of the terms in which this operator leads. */
export interface Term {
  onStarted(): void
  onStopped(): Promise<void>
  /** Called with the feed's address of another operator that leads; with undefined if none does. */
  onRival(address: string | undefined): void
}

/** The election of the operator that writes. It begins with `start`, when all parts of the operator exist. */
export class Leadership {
  readonly identity: string
  readonly #options: LeadershipOptions
  #elector: LeaseElector | undefined

  constructor(options: LeadershipOptions) {
    this.#options = options
    this.identity = names.leaseIdentity(options.pod, randomBytes(4).toString('hex'))
  }

  mayWrite(): boolean {
    return this.#elector?.isLeader() ?? false
  }

  /** Reads the Lease at once, because its holder may be gone. */
  readLeaseNow(): void {
    this.#elector?.readNow()
  }

  start(term: Term): void {
    const { client, place, config, log } = this.#options
    const { durationSeconds, renewDeadlineSeconds, retrySeconds } = config.lease
    const key = { namespace: place.namespace, name: names.leaseName(config.name) }
    this.#elector = new LeaseElector({
      lease: leaseAccess(client, key, [place.owner]),
      identity: this.identity,
      onStarted() {
        log.info('acquired the Lease: this operator writes')
        term.onStarted()
      },
      async onStopped() {
        log.info('lost the Lease: this operator no longer writes')
        await term.onStopped()
      },
      onRival: holder => term.onRival(holder === undefined ? undefined : this.#addressOf(holder)),
      onError: error => log.warn('read the Lease: failed', { error: `${error}` }),
      random: Math.random,
      timing: {
        leaseMs: durationSeconds * 1000,
        renewDeadlineMs: renewDeadlineSeconds * 1000,
        retryMs: retrySeconds * 1000,
      },
    })
    this.#elector.start()
  }

  async stop(): Promise<void> {
    const elector = this.#elector
    this.#elector = undefined
    await elector?.stop()
  }

  /** Returns the address of the feed of an operator; undefined if its identity has none. */
  #addressOf(holder: string): string | undefined {
    const { feedPort } = this.#options.config
    const ip = names.addressOfHolder(holder)
    return ip && (ip.includes(':') ? `[${ip}]:${feedPort}` : `${ip}:${feedPort}`)
  }
}
