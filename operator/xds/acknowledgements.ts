import type { Clock } from '@tollway/chassis/clock.ts'
import {
  type ClientState,
  clientId,
  effectiveStates,
  enforces,
  type FeedClient,
  findRejectionText,
  maxWorkers,
  type RejectedContent,
  workerId,
} from './client-state.ts'
import type { Resource, Snapshot } from './snapshot.ts'
import type { ResponseRejection } from './stream.ts'

/** What identifies the content of a resource, without the content itself. */
export type EnforcedResource = Pick<Resource, 'name' | 'hash' | 'features'>

/** The state of a client as its streams to this operator show it. */
export interface OwnClientState extends ClientState {
  /** Grows with each change of the state. */
  readonly revision: number
}

export interface Enforcement {
  readonly acknowledged: ReadonlySet<string>
  /** The message of a rejection is one line. */
  readonly rejections: readonly { readonly uid: string; readonly pod: string; readonly message: string }[]
  /** The pods that neither acknowledged nor rejected the content yet. */
  readonly pending: readonly string[]
  /** The pending pods that do not get the resource because they lack features, with those features. */
  readonly lacking: readonly { readonly uid: string; readonly features: readonly string[] }[]
}

export interface AcknowledgementLimits {
  /** How long a client without a stream is remembered. */
  readonly forgetAfterMs: number
  /**
   * The maximum number of remembered clients without a stream. Beyond it, the client that has had none for
   * the longest time is forgotten.
   */
  readonly maxEndedClients: number
  /**
   * How many acknowledged contents of a resource are stored. More than one, since a client may reject the
   * newest.
   */
  readonly maxGoodContents: number
}

export const defaultAcknowledgementLimits: AcknowledgementLimits = {
  forgetAfterMs: 600_000,
  maxEndedClients: 1000,
  maxGoodContents: 2,
}

/** What one stream of a client shows. Opaque to callers, which pass it on. */
export interface StreamRecord extends OwnClientState {
  revision: number
  connected: boolean
  endedMs: number
  inForce: Snapshot | undefined
  /**
   * The last acknowledged snapshot. Unlike `inForce`, it is kept when the client opens a stream without a
   * version.
   */
  lastGood: Snapshot | undefined
  readonly rejections: Map<string, RejectedContent>
}

/**
 * The acknowledged and rejected contents of each client of the feed, for one type. An acknowledgement outlives
 * a reconnection. A client can have several streams, of which only the newest counts: an earlier one may be
 * that of a process that has ended, and its last answers can arrive late.
 */
export class Acknowledgements {
  readonly #clock: Clock
  readonly #limits: AcknowledgementLimits
  readonly #remotePeers: (id: string) => readonly ClientState[]
  /**
   * The streams of each client by its id, in the order in which they were opened: all that are open, and the
   * last one. Clients without an open stream are in the order in which their last streams ended.
   */
  readonly #clients = new Map<string, readonly StreamRecord[]>()
  readonly #goodContents: GoodContents
  #published: Snapshot | undefined
  #revisions = 0

  /** @param remotePeers returns the states of a client at other operators */
  constructor(
    clock: Clock,
    limits: AcknowledgementLimits = defaultAcknowledgementLimits,
    remotePeers: (id: string) => readonly ClientState[] = () => [],
  ) {
    this.#clock = clock
    this.#limits = limits
    this.#remotePeers = remotePeers
    this.#goodContents = new GoodContents(limits.maxGoodContents)
  }

  /**
   * Records a stream that requests the type. The client has in force what it acknowledged on its last stream,
   * if it names that version: a client that names none, or another one, may be another process.
   */
  opened(client: FeedClient, claimedVersion: string): StreamRecord {
    this.#forgetEnded()
    const streams = this.#clients.get(clientId(client)) ?? []
    const last = streams.at(-1)
    const stream: StreamRecord = {
      client,
      revision: this.#nextRevision(),
      connected: true,
      openedMs: this.#clock.monotonicMs(),
      endedMs: 0,
      carriesOver: claimedVersion !== '',
      inForce: last?.inForce?.version === claimedVersion ? last.inForce : undefined,
      lastGood: last?.lastGood,
      rejections: new Map(last?.rejections),
    }
    this.#clients.set(clientId(client), [...streams.filter(({ connected }) => connected), stream])
    return stream
  }

  closed(stream: StreamRecord): void {
    const id = clientId(stream.client)
    const streams = this.#clients.get(id) ?? []
    stream.connected = false
    stream.endedMs = this.#clock.monotonicMs()
    const kept = streams.filter((one, index) => one.connected || index === streams.length - 1)
    for (const one of kept) one.revision = this.#nextRevision()
    this.#clients.delete(id)
    this.#clients.set(id, kept)
    this.#forgetEnded()
  }

  acknowledged(stream: StreamRecord, snapshot: Snapshot): void {
    this.#goodContents.add(snapshot)
    stream.inForce = snapshot
    stream.lastGood = snapshot
    stream.revision = this.#nextRevision()
    for (const [name, { hash }] of stream.rejections) {
      if (snapshot.resources.get(name)?.hash === hash) stream.rejections.delete(name)
    }
  }

  rejected(stream: StreamRecord, { snapshot, named, text }: ResponseRejection): void {
    stream.revision = this.#nextRevision()
    for (const { resource, text } of named) this.#addRejection(stream, resource, text)
    if (named.length > 0) return
    for (const resource of snapshot.resources.values()) {
      if (!enforces([stream], resource)) this.#addRejection(stream, resource, text)
    }
  }

  /**
   * A client may also reject the content that replaces a rejected one. Statuses are about the published
   * content, so its rejection stays.
   */
  #addRejection({ rejections }: StreamRecord, { name, hash }: Resource, message: string): void {
    const published = this.#published?.resources.get(name)?.hash
    if (hash !== published && published !== undefined && rejections.get(name)?.hash === published) return
    rejections.set(name, { hash, message })
  }

  /** Forgets the contents and rejections of resources that are no longer published. */
  retain(published: Snapshot): void {
    this.#published = published
    this.#goodContents.retain(published)
    for (const stream of [...this.#clients.values()].flat()) {
      const removed = [...stream.rejections.keys()].filter(name => !published.resources.has(name))
      for (const name of removed) stream.rejections.delete(name)
      if (removed.length > 0) stream.revision = this.#nextRevision()
    }
  }

  /**
   * Returns the contents that may replace a rejected one: first the last that the client of this stream
   * acknowledged, then those that any client acknowledged.
   */
  lastGood({ lastGood }: Pick<StreamRecord, 'lastGood'>, name: string): readonly Resource[] {
    const own = lastGood?.resources.get(name)
    const ofAny = this.#goodContents.find(name)
    return own ? [own, ...ofAny] : ofAny
  }

  /**
   * Looks up these pods or processes once. The returned function tells for any resource which of them enforce
   * exactly that content, with all their workers, and which of them or of the `others` rejected it. Reports of
   * other operators count too: the newest stream of each client decides. The function becomes outdated with
   * the next change: call it at once.
   */
  enforcement(
    uids: readonly string[],
    others: readonly string[] = [],
  ): (resource: EnforcedResource) => Enforcement {
    const find = (uid: string) => ({ uid, parts: this.#findParts(uid) })
    const clients = uids.map(find)
    // A client of another type has no state here.
    const otherClients = others.map(find).filter(({ parts }) => parts.some(states => states.length > 0))
    const all = [...clients, ...otherClients]
    const byAll: Enforcement = { acknowledged: new Set(uids), rejections: [], pending: [], lacking: [] }
    return resource => {
      const isByAll = all.every(client => enforcesFully(client, resource))
      return isByAll ? byAll : computeEnforcement(clients, otherClients, resource)
    }
  }

  /**
   * Returns the version that a client enforces, by its newest stream to any operator; empty if it enforces
   * none, and undefined if it has not requested the type.
   */
  findVersion(id: string): string | undefined {
    const states = this.#findStates(id)
    if (states.length === 0) return undefined
    return states.find(({ inForce }) => inForce !== undefined)?.inForce?.version ?? ''
  }

  /**
   * Returns the state of each client as its streams to this operator show it, without reports of other
   * operators.
   */
  clientStates(): readonly OwnClientState[] {
    return [...this.#clients.values()].flatMap(streams => newestOf(streams) ?? [])
  }

  #forgetEnded(): void {
    const ended = [...this.#clients].filter(([, streams]) => !streams.some(({ connected }) => connected))
    const oldestMs = this.#clock.monotonicMs() - this.#limits.forgetAfterMs
    for (const [index, [id, [{ endedMs } = { endedMs: 0 }]]] of ended.entries()) {
      if (endedMs < oldestMs || ended.length - index > this.#limits.maxEndedClients) this.#clients.delete(id)
    }
  }

  #nextRevision(): number {
    this.#revisions += 1
    return this.#revisions
  }

  #findStates(id: string): readonly ClientState[] {
    const own = newestOf(this.#clients.get(id) ?? [])
    const remote = this.#remotePeers(id)
    return effectiveStates(own ? [own, ...remote] : remote)
  }

  /**
   * Returns one list of states for each worker of the client with this uid, or a single list without workers.
   * The list of an unknown client is empty.
   */
  #findParts(uid: string): readonly (readonly ClientState[])[] {
    const alone = this.#findStates(uid)
    if (alone.length > 0) return [alone]
    for (let index = 0; index < maxWorkers; index++) {
      const [state] = this.#findStates(workerId(uid, index))
      const of = state?.client.worker?.of
      if (of !== undefined) return Array.from({ length: of }, (_, at) => this.#findStates(workerId(uid, at)))
    }
    return [[]]
  }
}

/** Returns the stream that counts: the last one that was opened and is open, or the last one if all have ended. */
function newestOf(streams: readonly StreamRecord[]): StreamRecord | undefined {
  return streams.findLast(({ connected }) => connected) ?? streams.at(-1)
}

interface ClientParts {
  readonly uid: string
  /** One list of states for each worker; a single list for a client without workers. */
  readonly parts: readonly (readonly ClientState[])[]
}

function enforcesFully({ parts }: ClientParts, resource: EnforcedResource): boolean {
  return parts.every(part => enforces(part, resource))
}

function computeEnforcement(
  clients: readonly ClientParts[],
  others: readonly ClientParts[],
  resource: EnforcedResource,
): Enforcement {
  const acknowledged = new Set<string>()
  const rejections: Enforcement['rejections'][number][] = []
  const pending: string[] = []
  const lacking: Enforcement['lacking'][number][] = []
  for (const client of clients) {
    const { uid, parts } = client
    const rejection = findRejectionOf(client, resource)
    if (enforcesFully(client, resource)) acknowledged.add(uid)
    else if (rejection !== undefined) rejections.push(rejection)
    else {
      pending.push(uid)
      const features = resource.features.filter(feature => parts.some(part => lacks(part, feature)))
      if (features.length > 0) lacking.push({ uid, features })
    }
  }
  for (const client of others) {
    const rejection = findRejectionOf(client, resource)
    if (rejection !== undefined && !enforcesFully(client, resource)) rejections.push(rejection)
  }
  return { acknowledged, rejections, pending, lacking }
}

function findRejectionOf(
  { uid, parts }: ClientParts,
  resource: EnforcedResource,
): Enforcement['rejections'][number] | undefined {
  const rejection = parts.flatMap(part => findNewestRejection(part, resource) ?? [])[0]
  return rejection && { uid, ...rejection }
}

/**
 * Returns whether a client lacks the feature by its newest stream. A client that has not connected yet lacks
 * nothing.
 */
function lacks([newest]: readonly ClientState[], feature: string): boolean {
  return newest !== undefined && !newest.client.features.includes(feature)
}

function findNewestRejection(
  clientStates: readonly ClientState[],
  resource: Pick<Resource, 'name' | 'hash'>,
) {
  const message = findRejectionText(clientStates, resource)
  return message === undefined ? undefined : { pod: clientStates[0]?.client.pod ?? '', message }
}

/** The contents of each resource that any client acknowledged, the last acknowledged first. */
class GoodContents {
  readonly #contents = new Map<string, readonly Resource[]>()
  readonly #maxContents: number
  #lastVersion = ''

  constructor(maxContents: number) {
    this.#maxContents = maxContents
  }

  add({ version, resources }: Snapshot): void {
    // A snapshot is added once, although every client acknowledges it, one after the other.
    if (version === this.#lastVersion) return
    this.#lastVersion = version
    for (const [name, resource] of resources) {
      const others = this.find(name).filter(({ hash }) => hash !== resource.hash)
      this.#contents.set(name, [resource, ...others].slice(0, this.#maxContents))
    }
  }

  retain({ resources }: Snapshot): void {
    this.#lastVersion = ''
    for (const name of this.#contents.keys()) if (!resources.has(name)) this.#contents.delete(name)
  }

  find(name: string): readonly Resource[] {
    return this.#contents.get(name) ?? []
  }
}
