import type { Clock } from '@tollway/chassis/clock.ts'
import type { Resource, Snapshot } from './snapshot.ts'
import type { Refusal } from './stream.ts'

/**
 * What each client of the feed is known to enforce of one type, and what it refused. A client is a process,
 * not a
 * stream: what it acknowledged holds over a reconnection.
 */
export interface Acknowledgements {
  /** A stream of this client asked for the type. One that claims no version has nothing in force any more. */
  opened(client: Client, claimedVersion: string): void
  /** The id is `clientId` of one that was opened; so are those below. */
  closed(id: string): void
  acknowledged(id: string, snapshot: Snapshot): void
  refused(id: string, refusal: Refusal): void
  /** Forgets contents and refusals of resources that are not in what is published now. */
  retain(published: Snapshot): void
  /** Contents that may go out in place of a refused one: this client's own, then those of any. */
  lastGood(id: string, name: string): readonly Resource[]
  /** Which of these pods or processes enforce exactly this content of the resource, all workers of each. */
  enforcement(resource: Pick<Resource, 'name' | 'hash'>, uids: readonly string[]): Enforcement
}

export interface Client {
  /** From node.metadata; unique to a pod or a process. */
  readonly uid: string
  /** For people. */
  readonly pod: string
  /** Which of the pod's workers it is, from 0, and of how many; undefined where there are none. */
  readonly worker?: { readonly index: number; readonly of: number } | undefined
}

/** The most workers that a pod may have. */
export const maxWorkers = 64

/** Tells the workers of a pod apart. */
export function clientId({ uid, worker }: Client): string {
  return worker === undefined ? uid : workerId(uid, worker.index)
}

const workerId = (uid: string, index: number) => `${uid} worker ${index}`

export interface Enforcement {
  readonly acknowledged: ReadonlySet<string>
  /** In the order of the question. The message is one line. */
  readonly refusals: readonly { readonly uid: string; readonly pod: string; readonly message: string }[]
  /** Those that were not heard of yet. */
  readonly pending: readonly string[]
}

export interface AcknowledgementLimits {
  /** How long a client without a stream is remembered. */
  readonly forgetAfterMs: number
  /** How many of them are, the last ones. */
  readonly maxEndedClients: number
  /** How many acknowledged contents of a resource are kept: a client may refuse the newest one. */
  readonly maxGoodContents: number
}

export const defaultAcknowledgementLimits: AcknowledgementLimits = {
  forgetAfterMs: 600_000,
  maxEndedClients: 1000,
  maxGoodContents: 2,
}

interface Known {
  readonly client: Client
  streams: number
  endedMs: number
  /** What it enforces. */
  inForce: Snapshot | undefined
  /** As `inForce`, but kept when the client begins anew. */
  lastGood: Snapshot | undefined
  readonly refusals: Map<string, { readonly hash: string; readonly message: string }>
}

export function createAcknowledgements(
  clock: Clock,
  limits: AcknowledgementLimits = defaultAcknowledgementLimits,
): Acknowledgements {
  const clients = new Map<string, Known>()
  const goodContents = createGoodContents(limits.maxGoodContents)

  /** Those without a stream stand in the order in which they ended. */
  function forgetEnded(): void {
    const ended = [...clients].filter(([, { streams }]) => streams === 0)
    const oldestMs = clock.monotonicMs() - limits.forgetAfterMs
    for (const [index, [uid, { endedMs }]] of ended.entries()) {
      if (endedMs < oldestMs || ended.length - index > limits.maxEndedClients) clients.delete(uid)
    }
  }

  /** The client of this uid, or each of its workers; undefined for those that were not heard of. */
  function partsOf(uid: string): readonly (Known | undefined)[] {
    const alone = clients.get(uid)
    if (alone !== undefined) return [alone]
    for (let index = 0; index < maxWorkers; index++) {
      const { worker } = clients.get(workerId(uid, index))?.client ?? {}
      if (worker) return Array.from({ length: worker.of }, (_, at) => clients.get(workerId(uid, at)))
    }
    return [undefined]
  }

  return {
    opened(client, claimedVersion) {
      forgetEnded()
      const known = clients.get(clientId(client))
      clients.set(clientId(client), {
        client,
        streams: (known?.streams ?? 0) + 1,
        endedMs: 0,
        inForce: claimedVersion === '' ? undefined : known?.inForce,
        lastGood: known?.lastGood,
        refusals: known?.refusals ?? new Map(),
      })
    },
    closed(id) {
      const known = clients.get(id)
      if (known === undefined) return
      known.streams -= 1
      if (known.streams > 0) return
      known.endedMs = clock.monotonicMs()
      clients.delete(id)
      clients.set(id, known)
      forgetEnded()
    },
    acknowledged(id, snapshot) {
      goodContents.add(snapshot)
      const known = clients.get(id)
      if (known === undefined) return
      known.inForce = snapshot
      known.lastGood = snapshot
      for (const [name, { hash }] of known.refusals) {
        if (snapshot.resources.get(name)?.hash === hash) known.refusals.delete(name)
      }
    },
    refused(id, { snapshot, named, text }) {
      const known = clients.get(id)
      if (known === undefined) return
      for (const { resource, text } of named) {
        known.refusals.set(resource.name, { hash: resource.hash, message: text })
      }
      if (named.length > 0) return
      for (const { name, hash } of snapshot.resources.values()) {
        if (!enforces(known, name, hash)) known.refusals.set(name, { hash, message: text })
      }
    },
    retain(published) {
      goodContents.retain(published)
      for (const { refusals } of clients.values()) {
        for (const name of refusals.keys()) if (!published.resources.has(name)) refusals.delete(name)
      }
    },
    lastGood(id, name) {
      const own = clients.get(id)?.lastGood?.resources.get(name)
      return own ? [own, ...goodContents.of(name)] : goodContents.of(name)
    },
    enforcement({ name, hash }, uids) {
      const acknowledged = new Set<string>()
      const refusals: Enforcement['refusals'][number][] = []
      const pending: string[] = []
      for (const uid of uids) {
        const parts = partsOf(uid)
        const refusing = parts.find(known => known?.refusals.get(name)?.hash === hash)
        if (parts.every(known => known && enforces(known, name, hash))) acknowledged.add(uid)
        else if (refusing !== undefined) {
          const message = refusing.refusals.get(name)?.message ?? ''
          refusals.push({ uid, pod: refusing.client.pod, message })
        } else pending.push(uid)
      }
      return { acknowledged, refusals, pending }
    },
  }
}

function enforces({ inForce }: Known, name: string, hash: string): boolean {
  return inForce?.resources.get(name)?.hash === hash
}

/** Of each resource, the contents that any client acknowledged, the last acknowledged first. */
function createGoodContents(maxContents: number) {
  const contents = new Map<string, readonly Resource[]>()
  let lastVersion = ''
  return {
    add({ version, resources }: Snapshot): void {
      // Every client acknowledges the same snapshot, one after the other.
      if (version === lastVersion) return
      lastVersion = version
      for (const [name, resource] of resources) {
        const others = (contents.get(name) ?? []).filter(({ hash }) => hash !== resource.hash)
        contents.set(name, [resource, ...others].slice(0, maxContents))
      }
    },
    retain({ resources }: Snapshot): void {
      lastVersion = ''
      for (const name of contents.keys()) if (!resources.has(name)) contents.delete(name)
    },
    of: (name: string): readonly Resource[] => contents.get(name) ?? [],
  }
}
