import type { Clock } from '@tollway/chassis/clock.ts'
import type { Resource, Snapshot } from './snapshot.ts'
import {
  clientId,
  enforces,
  type FeedClient,
  type HeldRefusal,
  maxWorkers,
  refusalOf,
  type Standing,
  thoseThatCount,
  workerId,
} from './standing.ts'
import type { Refusal } from './stream.ts'

/**
 * What each client of the feed is known to enforce of one type, and what it refused. A client is a process,
 * not a stream: what it acknowledged holds over a reconnection.
 */
export interface Acknowledgements {
  /** A stream of this client asked for the type. One that claims no version has nothing in force any more. */
  opened(client: FeedClient, claimedVersion: string): void
  /** The id is `clientId` of one that was opened; so are those below. */
  closed(id: string): void
  acknowledged(id: string, snapshot: Snapshot): void
  refused(id: string, refusal: Refusal): void
  /** Forgets contents and refusals of resources that are not in what is published now. */
  retain(published: Snapshot): void
  /** Contents that may go out in place of a refused one: this client's own, then those of any. */
  lastGood(id: string, name: string): readonly Resource[]
  /**
   * Looks up these pods or processes once. The answer says for any resource which of them enforce exactly
   * that content, with all their workers. Reports of other operators count: of each client the newest stream
   * decides. The answer describes the present, so it is not to be kept.
   */
  enforcement(uids: readonly string[]): (resource: EnforcedResource) => Enforcement
  /** The state of each client by the streams of this operator alone. */
  standings(): readonly OwnStanding[]
}

/** A resource without its bytes. */
export type EnforcedResource = Pick<Resource, 'name' | 'hash' | 'features'>

/** The state of a client by streams of this operator. */
export interface OwnStanding extends Standing {
  /** Grows with each change of it. */
  readonly revision: number
}

export interface Enforcement {
  readonly acknowledged: ReadonlySet<string>
  /** In the order of the question. The message is one line. */
  readonly refusals: readonly { readonly uid: string; readonly pod: string; readonly message: string }[]
  /** Those that were not heard of yet. */
  readonly pending: readonly string[]
  /** Those of the pending ones that do not get the resource, with the features that they lack. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
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

interface Known extends OwnStanding {
  revision: number
  streams: number
  connected: boolean
  endedMs: number
  inForce: Snapshot | undefined
  /** As `inForce`, but kept when the client begins anew. */
  lastGood: Snapshot | undefined
  readonly refusals: Map<string, HeldRefusal>
}

/** @param elsewhere what other operators know of a client. */
export function createAcknowledgements(
  clock: Clock,
  limits: AcknowledgementLimits = defaultAcknowledgementLimits,
  remotePeers: (id: string) => readonly Standing[] = () => [],
): Acknowledgements {
  const clients = new Map<string, Known>()
  let revisions = 0
  const goodContents = createGoodContents(limits.maxGoodContents)

  /** Those without a stream are in the order in which they ended. */
  function forgetEnded(): void {
    const ended = [...clients].filter(([, { streams }]) => streams === 0)
    const oldestMs = clock.monotonicMs() - limits.forgetAfterMs
    for (const [index, [uid, { endedMs }]] of ended.entries()) {
      if (endedMs < oldestMs || ended.length - index > limits.maxEndedClients) clients.delete(uid)
    }
  }

  const nextRevision = () => {
    revisions += 1
    return revisions
  }

  function standingsOf(id: string): readonly Standing[] {
    const own = clients.get(id)
    return thoseThatCount(own ? [own, ...remotePeers(id)] : remotePeers(id))
  }

  /** Those of the client of this uid, or of each of its workers; empty for those that were not heard of. */
  function partsOf(uid: string): readonly (readonly Standing[])[] {
    const alone = standingsOf(uid)
    if (alone.length > 0) return [alone]
    for (let index = 0; index < maxWorkers; index++) {
      const [standing] = standingsOf(workerId(uid, index))
      const of = standing?.client.worker?.of
      if (of !== undefined) return Array.from({ length: of }, (_, at) => standingsOf(workerId(uid, at)))
    }
    return [[]]
  }

  return {
    opened(client, claimedVersion) {
      forgetEnded()
      const known = clients.get(clientId(client))
      clients.set(clientId(client), {
        client,
        revision: nextRevision(),
        streams: (known?.streams ?? 0) + 1,
        connected: true,
        openedMs: clock.monotonicMs(),
        endedMs: 0,
        carriesOver: claimedVersion !== '',
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
      known.connected = false
      known.revision = nextRevision()
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
      known.revision = nextRevision()
      for (const [name, { hash }] of known.refusals) {
        if (snapshot.resources.get(name)?.hash === hash) known.refusals.delete(name)
      }
    },
    refused(id, { snapshot, named, text }) {
      const known = clients.get(id)
      if (known === undefined) return
      known.revision = nextRevision()
      for (const { resource, text } of named) {
        known.refusals.set(resource.name, { hash: resource.hash, message: text })
      }
      if (named.length > 0) return
      for (const { name, hash } of snapshot.resources.values()) {
        if (!enforces([known], { name, hash })) known.refusals.set(name, { hash, message: text })
      }
    },
    retain(published) {
      goodContents.retain(published)
      for (const known of clients.values()) {
        const gone = [...known.refusals.keys()].filter(name => !published.resources.has(name))
        for (const name of gone) known.refusals.delete(name)
        if (gone.length > 0) known.revision = nextRevision()
      }
    },
    lastGood(id, name) {
      const own = clients.get(id)?.lastGood?.resources.get(name)
      return own ? [own, ...goodContents.of(name)] : goodContents.of(name)
    },
    enforcement(uids) {
      const clients = uids.map(uid => ({ uid, parts: partsOf(uid) }))
      const byAll: Enforcement = { acknowledged: new Set(uids), refusals: [], pending: [], lacking: [] }
      return resource => {
        const isByAll = clients.every(({ parts }) => parts.every(part => enforces(part, resource)))
        return isByAll ? byAll : enforcementOf(clients, resource)
      }
    },
    standings: () => [...clients.values()],
  }
}

interface ClientParts {
  readonly uid: string
  /** The standings of each worker. */
  readonly parts: readonly (readonly Standing[])[]
}

function enforcementOf(clients: readonly ClientParts[], resource: EnforcedResource): Enforcement {
  const acknowledged = new Set<string>()
  const refusals: Enforcement['refusals'][number][] = []
  const pending: string[] = []
  const lacking: Enforcement['lacking'][number][] = []
  for (const { uid, parts } of clients) {
    const refusal = parts.flatMap(part => refusalIn(part, resource) ?? [])[0]
    if (parts.every(part => enforces(part, resource))) acknowledged.add(uid)
    else if (refusal !== undefined) refusals.push({ uid, ...refusal })
    else {
      pending.push(uid)
      const features = resource.features.filter(feature => parts.some(part => lacks(part, feature)))
      if (features.length > 0) lacking.push({ uid, features })
    }
  }
  return { acknowledged, refusals, pending, lacking }
}

/** The newest stream of a client decides; a client that has not connected yet lacks nothing. */
function lacks([newest]: readonly Standing[], feature: string): boolean {
  return newest !== undefined && !newest.client.features.includes(feature)
}

function refusalIn(standings: readonly Standing[], resource: Pick<Resource, 'name' | 'hash'>) {
  const message = refusalOf(standings, resource)
  return message === undefined ? undefined : { pod: standings[0]?.client.pod ?? '', message }
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
