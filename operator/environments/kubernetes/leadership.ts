import { randomBytes } from 'node:crypto'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { type Lease, type LeaseAccess, LeaseElector } from '../../controller/lease-elector.ts'
import * as names from '../../workloads/cluster-names.ts'
import type { KubeClient } from './api/client.ts'
import type { ApiResource, KubeObject } from './api/kube-object.ts'
import type { Installation } from './infrastructure/objects/installation.ts'

interface LeadershipOptions {
  readonly client: KubeClient
  readonly installation: Installation
  readonly config: Pick<ClusterConfig, 'name' | 'feedPort' | 'lease'>
  readonly pod: Parameters<typeof names.leaseIdentity>[0]
  readonly log: Log
}

/** Called when this operator starts and stops leading, and when another operator leads. */
interface Term {
  onStarted(): void
  onStopped(): Promise<void>
  /** Called with the feed's address of another operator when it leads, and with undefined when none does. */
  onRival(address: string | undefined): void
}

/** Elects the operator that writes. `start` is called when all parts of the operator exist. */
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

  /** Makes this operator read the Lease at once. Called when the holder may have stopped. */
  readLeaseNow(): void {
    this.#elector?.readNow()
  }

  start(term: Term): void {
    const { client, installation, config, log } = this.#options
    const { durationSeconds, renewDeadlineSeconds, retrySeconds } = config.lease
    const key = { namespace: installation.namespace, name: names.leaseName(config.name) }
    this.#elector = new LeaseElector({
      lease: leaseAccess(client, key, [installation.owner]),
      identity: this.identity,
      onStarted() {
        log.info('acquire Lease')
        term.onStarted()
      },
      async onStopped() {
        log.info('lose Lease')
        await term.onStopped()
      },
      onRival: holder => term.onRival(holder === undefined ? undefined : this.#toFeedAddress(holder)),
      onError: error => log.warn('read Lease failed', { error: `${error}` }),
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

  /**
   * Returns the feed's address of the operator with this identity; undefined if the identity contains none.
   */
  #toFeedAddress(holder: string): string | undefined {
    const { feedPort } = this.#options.config
    const ip = names.addressOfHolder(holder)
    return ip && (ip.includes(':') ? `[${ip}]:${feedPort}` : `${ip}:${feedPort}`)
  }
}

const leaseResource: ApiResource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}
const watchSeconds = 600
const envelope = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }

export function leaseAccess(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'watch'>,
  key: { readonly namespace: string; readonly name: string },
  ownerReferences?: readonly unknown[],
): LeaseAccess {
  // Updates also set the owner, because earlier versions set another one.
  const owned = ownerReferences === undefined ? {} : { ownerReferences }
  return {
    async get(signal) {
      const found = await client.get(leaseResource, key, { signal })
      return found === undefined ? undefined : toLease(found)
    },
    async create(spec, signal) {
      const object = { ...envelope, metadata: { ...key, ...owned }, spec }
      return toLease(await client.create(leaseResource, object, { signal }))
    },
    async update({ metadata }, spec, signal) {
      const object = { ...envelope, metadata: { ...metadata, ...owned }, spec }
      return toLease(await client.replace(leaseResource, object, { signal }))
    },
    async *watch({ metadata }, signal) {
      const events = client.watch(leaseResource, {
        namespace: key.namespace,
        fieldSelector: `metadata.name=${key.name}`,
        resourceVersion: `${metadata['resourceVersion']}`,
        timeoutSeconds: watchSeconds,
        signal,
      })
      for await (const { type, object } of events) {
        if (type !== 'BOOKMARK') yield type === 'DELETED' ? undefined : toLease(object)
      }
    },
  }
}

function toLease({ metadata, spec }: KubeObject): Lease {
  return { metadata, spec: isObject(spec) ? spec : {} }
}
