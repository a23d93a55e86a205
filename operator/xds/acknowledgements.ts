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
  closed(uid: string): void
  acknowledged(uid: string, snapshot: Snapshot): void
  refused(uid: string, refusal: Refusal): void
  /** Forgets contents and refusals of resources that are not in what is published now. */
  retain(published: Snapshot): void
  /** Contents that may go out in place of a refused one: this client's own, then those of any. */
  lastGood(uid: string, name: string): readonly Resource[]
  /** Which of these clients enforce exactly this content of the resource. */
  enforcement(resource: Pick<Resource, 'name' | 'hash'>, uids: readonly string[]): Enforcement
}

export interface Client {
  /** From node.metadata; unique to a pod or a process. */
  readonly uid: string
  /** For people. */
  readonly pod: string
}

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

  return {
    opened(client, claimedVersion) {
      forgetEnded()
      const known = clients.get(client.uid)
      clients.set(client.uid, {
        client,
        streams: (known?.streams ?? 0) + 1,
        endedMs: 0,
        inForce: claimedVersion === '' ? undefined : known?.inForce,
        lastGood: known?.lastGood,
        refusals: known?.refusals ?? new Map(),
      })
    },
    closed(uid) {
      const known = clients.get(uid)
      if (known === undefined) return
      known.streams -= 1
      if (known.streams > 0) return
      known.endedMs = clock.monotonicMs()
      clients.delete(uid)
      clients.set(uid, known)
      forgetEnded()
    },
    acknowledged(uid, snapshot) {
      goodContents.add(snapshot)
      const known = clients.get(uid)
      if (known === undefined) return
      known.inForce = snapshot
      known.lastGood = snapshot
      for (const [name, { hash }] of known.refusals) {
        if (snapshot.resources.get(name)?.hash === hash) known.refusals.delete(name)
      }
    },
    refused(uid, { snapshot, named, text }) {
      const known = clients.get(uid)
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
    lastGood(uid, name) {
      const own = clients.get(uid)?.lastGood?.resources.get(name)
      return own ? [own, ...goodContents.of(name)] : goodContents.of(name)
    },
    enforcement({ name, hash }, uids) {
      const acknowledged = new Set<string>()
      const refusals: Enforcement['refusals'][number][] = []
      const pending: string[] = []
      for (const uid of uids) {
        const known = clients.get(uid)
        const refusal = known?.refusals.get(name)
        if (known && enforces(known, name, hash)) acknowledged.add(uid)
        else if (known && refusal?.hash === hash) {
          refusals.push({ uid, pod: known.client.pod, message: refusal.message })
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
