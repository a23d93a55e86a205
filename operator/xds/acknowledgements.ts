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
  /** The rejections, sorted by uid. The message is one line. */
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

interface ClientRecord extends OwnClientState {
  revision: number
  streams: number
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
 * The acknowledged and rejected contents of each client of the feed, for one type. A client is a process, not
 * a stream: an acknowledgement outlives a reconnection.
 */
export class Acknowledgements {
  readonly #clock: Clock
  readonly #limits: AcknowledgementLimits
  readonly #remotePeers: (id: string) => readonly ClientState[]
  /** The clients by id. Those without a stream are in the order in which their last streams ended. */
  readonly #clients = new Map<string, ClientRecord>()
  readonly #goodContents: GoodContents
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

  /** Records a stream that requests the type. A client that names no version has nothing in force. */
  opened(client: FeedClient, claimedVersion: string): void {
    this.#forgetEnded()
    const known = this.#clients.get(clientId(client))
    this.#clients.set(clientId(client), {
      client,
      revision: this.#nextRevision(),
      streams: (known?.streams ?? 0) + 1,
      connected: true,
      openedMs: this.#clock.monotonicMs(),
      endedMs: 0,
      carriesOver: claimedVersion !== '',
      inForce: claimedVersion === '' ? undefined : known?.inForce,
      lastGood: known?.lastGood,
      rejections: known?.rejections ?? new Map(),
    })
  }

  /** @param id the `clientId` of a client that was passed to `opened`; the same in the methods below */
  closed(id: string): void {
    const known = this.#clients.get(id)
    if (known === undefined) return
    known.streams -= 1
    if (known.streams > 0) return
    known.connected = false
    known.revision = this.#nextRevision()
    known.endedMs = this.#clock.monotonicMs()
    this.#clients.delete(id)
    this.#clients.set(id, known)
    this.#forgetEnded()
  }

  acknowledged(id: string, snapshot: Snapshot): void {
    this.#goodContents.add(snapshot)
    const known = this.#clients.get(id)
    if (known === undefined) return
    known.inForce = snapshot
    known.lastGood = snapshot
    known.revision = this.#nextRevision()
    for (const [name, { hash }] of known.rejections) {
      if (snapshot.resources.get(name)?.hash === hash) known.rejections.delete(name)
    }
  }

  rejected(id: string, { snapshot, named, text }: ResponseRejection): void {
    const known = this.#clients.get(id)
    if (known === undefined) return
    known.revision = this.#nextRevision()
    for (const { resource, text } of named) {
      known.rejections.set(resource.name, { hash: resource.hash, message: text })
    }
    if (named.length > 0) return
    for (const { name, hash } of snapshot.resources.values()) {
      if (!enforces([known], { name, hash })) known.rejections.set(name, { hash, message: text })
    }
  }

  /** Forgets the contents and rejections of resources that are no longer published. */
  retain(published: Snapshot): void {
    this.#goodContents.retain(published)
    for (const known of this.#clients.values()) {
      const removed = [...known.rejections.keys()].filter(name => !published.resources.has(name))
      for (const name of removed) known.rejections.delete(name)
      if (removed.length > 0) known.revision = this.#nextRevision()
    }
  }

  /**
   * Returns the contents that may replace a rejected one: first the last that this client acknowledged, then
   * those that any client acknowledged.
   */
  lastGood(id: string, name: string): readonly Resource[] {
    const own = this.#clients.get(id)?.lastGood?.resources.get(name)
    const ofAny = this.#goodContents.find(name)
    return own ? [own, ...ofAny] : ofAny
  }

  /**
   * Looks up these pods or processes once. The returned function tells for any resource which of them enforce
   * exactly that content, with all their workers. Reports of other operators count too: the newest stream of
   * each client decides. The function becomes outdated with the next change: call it at once.
   */
  enforcement(uids: readonly string[]): (resource: EnforcedResource) => Enforcement {
    const clients = uids.map(uid => ({ uid, parts: this.#findParts(uid) }))
    const byAll: Enforcement = { acknowledged: new Set(uids), rejections: [], pending: [], lacking: [] }
    return resource => {
      const isByAll = clients.every(({ parts }) => parts.every(part => enforces(part, resource)))
      return isByAll ? byAll : computeEnforcement(clients, resource)
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
    return [...this.#clients.values()]
  }

  #forgetEnded(): void {
    const ended = [...this.#clients].filter(([, { streams }]) => streams === 0)
    const oldestMs = this.#clock.monotonicMs() - this.#limits.forgetAfterMs
    for (const [index, [id, { endedMs }]] of ended.entries()) {
      if (endedMs < oldestMs || ended.length - index > this.#limits.maxEndedClients) this.#clients.delete(id)
    }
  }

  #nextRevision(): number {
    this.#revisions += 1
    return this.#revisions
  }

  #findStates(id: string): readonly ClientState[] {
    const own = this.#clients.get(id)
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

interface ClientParts {
  readonly uid: string
  /** One list of states for each worker; a single list for a client without workers. */
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
