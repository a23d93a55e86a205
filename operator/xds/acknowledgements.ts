import type { Clock } from '@tollway/chassis/clock.ts'
import {
  type ClientState,
  clientId,
  effectiveStates,
  enforces,
  type FeedClient,
  findRejection,
  maxWorkers,
  type RejectedContent,
  workerId,
} from './client-state.ts'
import type { Resource, Snapshot } from './snapshot.ts'
import type { ResponseRejection } from './stream.ts'

/**
 * The acknowledged and rejected contents of each client of the feed, for one type. A client is a process, not
 * a stream: an acknowledgement outlives a reconnection.
 */
export interface Acknowledgements {
  /** Records a stream that requests the type. A client that names no version has nothing in force. */
  opened(client: FeedClient, claimedVersion: string): void
  /** @param id the `clientId` of a client that was opened; likewise below */
  closed(id: string): void
  acknowledged(id: string, snapshot: Snapshot): void
  rejected(id: string, rejection: ResponseRejection): void
  /** Forgets the contents and rejections of resources that are no longer published. */
  retain(published: Snapshot): void
  /** Returns the contents that may replace a rejected one: those of this client, then those of any client. */
  lastGood(id: string, name: string): readonly Resource[]
  /**
   * Looks up these pods or processes once. The result returns for any resource which of them enforce exactly
   * that content, with all their workers. Reports of other operators count: the newest stream of each client
   * decides. The result describes the present, so the caller must not keep it.
   */
  enforcement(uids: readonly string[]): (resource: EnforcedResource) => Enforcement
  /**
   * Returns the version that a client enforces, by its newest stream to any operator; empty if it enforces
   * none, and undefined if it has not requested the type.
   */
  versionOf(id: string): string | undefined
  /** The state of each client by the streams of this operator alone. */
  clientStates(): readonly OwnClientState[]
}

/** A resource without its bytes. */
export type EnforcedResource = Pick<Resource, 'name' | 'hash' | 'features'>

/** The state of a client by streams of this operator. */
export interface OwnClientState extends ClientState {
  /** Grows with each change of the state. */
  readonly revision: number
}

export interface Enforcement {
  readonly acknowledged: ReadonlySet<string>
  /** The rejections, sorted by uid. The message is one line. */
  readonly rejections: readonly { readonly uid: string; readonly pod: string; readonly message: string }[]
  /** The pods that neither acknowledged nor rejected the content yet. */
  readonly pending: readonly string[]
  /** The pending pods that do not get the resource, with the features that they lack. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
}

export interface AcknowledgementLimits {
  /** How long a client without a stream is remembered. */
  readonly forgetAfterMs: number
  /** The maximum of remembered clients without a stream. The oldest are forgotten first. */
  readonly maxEndedClients: number
  /** How many acknowledged contents of a resource are kept: a client may reject the newest one. */
  readonly maxGoodContents: number
}

export const defaultAcknowledgementLimits: AcknowledgementLimits = {
  forgetAfterMs: 600_000,
  maxEndedClients: 1000,
  maxGoodContents: 2,
}

interface ClientRecord extends OwnClientState {
  revision: number
  streams: number
  connected: boolean
  endedMs: number
  inForce: Snapshot | undefined
  /** The same as `inForce`, but kept when the client begins anew. */
  lastGood: Snapshot | undefined
  readonly rejections: Map<string, RejectedContent>
}

/** @param remotePeers returns the states of a client at other operators */
export function createAcknowledgements(
  clock: Clock,
  limits: AcknowledgementLimits = defaultAcknowledgementLimits,
  remotePeers: (id: string) => readonly ClientState[] = () => [],
): Acknowledgements {
  const clients = new Map<string, ClientRecord>()
  let revisions = 0
  const goodContents = createGoodContents(limits.maxGoodContents)

  /** Clients without a stream are in the order of their end. */
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

  function statesOf(id: string): readonly ClientState[] {
    const own = clients.get(id)
    return effectiveStates(own ? [own, ...remotePeers(id)] : remotePeers(id))
  }

  /** Returns the states of the client of this uid, or of each of its workers; empty for unknown clients. */
  function partsOf(uid: string): readonly (readonly ClientState[])[] {
    const alone = statesOf(uid)
    if (alone.length > 0) return [alone]
    for (let index = 0; index < maxWorkers; index++) {
      const [state] = statesOf(workerId(uid, index))
      const of = state?.client.worker?.of
      if (of !== undefined) return Array.from({ length: of }, (_, at) => statesOf(workerId(uid, at)))
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
        rejections: known?.rejections ?? new Map(),
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
      for (const [name, { hash }] of known.rejections) {
        if (snapshot.resources.get(name)?.hash === hash) known.rejections.delete(name)
      }
    },
    rejected(id, { snapshot, named, text }) {
      const known = clients.get(id)
      if (known === undefined) return
      known.revision = nextRevision()
      for (const { resource, text } of named) {
        known.rejections.set(resource.name, { hash: resource.hash, message: text })
      }
      if (named.length > 0) return
      for (const { name, hash } of snapshot.resources.values()) {
        if (!enforces([known], { name, hash })) known.rejections.set(name, { hash, message: text })
      }
    },
    retain(published) {
      goodContents.retain(published)
      for (const known of clients.values()) {
        const gone = [...known.rejections.keys()].filter(name => !published.resources.has(name))
        for (const name of gone) known.rejections.delete(name)
        if (gone.length > 0) known.revision = nextRevision()
      }
    },
    lastGood(id, name) {
      const own = clients.get(id)?.lastGood?.resources.get(name)
      return own ? [own, ...goodContents.of(name)] : goodContents.of(name)
    },
    enforcement(uids) {
      const clients = uids.map(uid => ({ uid, parts: partsOf(uid) }))
      const byAll: Enforcement = { acknowledged: new Set(uids), rejections: [], pending: [], lacking: [] }
      return resource => {
        const isByAll = clients.every(({ parts }) => parts.every(part => enforces(part, resource)))
        return isByAll ? byAll : computeEnforcement(clients, resource)
      }
    },
    versionOf(id) {
      const states = statesOf(id)
      if (states.length === 0) return undefined
      return states.find(({ inForce }) => inForce !== undefined)?.inForce?.version ?? ''
    },
    clientStates: () => [...clients.values()],
  }
}

interface ClientParts {
  readonly uid: string
  /** The states of each worker. */
  readonly parts: readonly (readonly ClientState[])[]
}

function computeEnforcement(clients: readonly ClientParts[], resource: EnforcedResource): Enforcement {
  const acknowledged = new Set<string>()
  const rejections: Enforcement['rejections'][number][] = []
  const pending: string[] = []
  const lacking: Enforcement['lacking'][number][] = []
  for (const { uid, parts } of clients) {
    const rejection = parts.flatMap(part => findNewestRejection(part, resource) ?? [])[0]
    if (parts.every(part => enforces(part, resource))) acknowledged.add(uid)
    else if (rejection !== undefined) rejections.push({ uid, ...rejection })
    else {
      pending.push(uid)
      const features = resource.features.filter(feature => parts.some(part => lacks(part, feature)))
      if (features.length > 0) lacking.push({ uid, features })
    }
  }
  return { acknowledged, rejections, pending, lacking }
}

/** The newest stream of a client decides. A client that has not connected yet lacks nothing. */
function lacks([newest]: readonly ClientState[], feature: string): boolean {
  return newest !== undefined && !newest.client.features.includes(feature)
}

function findNewestRejection(
  clientStates: readonly ClientState[],
  resource: Pick<Resource, 'name' | 'hash'>,
) {
  const message = findRejection(clientStates, resource)
  return message === undefined ? undefined : { pod: clientStates[0]?.client.pod ?? '', message }
}

/** The contents of each resource that any client acknowledged, the last acknowledged first. */
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
