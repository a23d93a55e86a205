import type { Resource, Snapshot } from './snapshot.ts'

/** Who is at the other end of a stream, as it says itself in its first request. */
export interface FeedClient {
  /** From node.metadata; unique to a pod or a process. */
  readonly uid: string
  /** For people. */
  readonly pod: string
  /** Which of the pod's workers it is, from 0, and of how many; undefined where there are none. */
  readonly worker?: { readonly index: number; readonly of: number } | undefined
  readonly nodeId: string
  readonly namespace: string
  /** The extensions of the reference that it understands. */
  readonly features: readonly string[]
  /** The connection's address. */
  readonly peer: string
}

/** The field of node.metadata with the features of a client, separated by commas. */
export const featuresField = 'tollway.features'

/** The most features of a client that are read. */
export const maxFeatures = 100

/** The most workers that a pod may have. */
export const maxWorkers = 64

/** Tells the workers of a pod apart. */
export function clientId({ uid, worker }: Pick<FeedClient, 'uid' | 'worker'>): string {
  return worker === undefined ? uid : workerId(uid, worker.index)
}

export const workerId = (uid: string, index: number) => `${uid} worker ${index}`

/** What one client has of one type, as far as one operator knows: by the newest stream that it had there. */
export interface Standing {
  readonly client: FeedClient
  /** Whether the stream is there still. */
  readonly connected: boolean
  /** When the stream was opened, by the monotonic clock of this process. */
  readonly openedMs: number
  /** The stream began by a claim that something is in force: what an older one proved still holds. */
  readonly carriesOver: boolean
  /** What the client has acknowledged; undefined when that is nothing. */
  readonly inForce: HeldContents | undefined
  /** By the names of resources. */
  readonly refusals: ReadonlyMap<string, HeldRefusal>
}

/** The resources of a version, of which it is only asked whether they are those that shall be. */
export interface HeldContents extends Pick<Snapshot, 'version'> {
  readonly resources: ReadonlyMap<string, Pick<Resource, 'hash'>>
}

export interface HeldRefusal {
  /** Of the content that was refused. */
  readonly hash: string
  /** One line. */
  readonly message: string
}

/** What other operators know of clients. A client has a standing with each at which it had streams. */
export interface RemotePeers {
  standings(typeUrl: string, clientId: string): readonly Standing[]
  /** Those that have a stream there. */
  clients(): readonly FeedClient[]
  /** Called after each change of these results. */
  onChange(listener: () => void): void
}

/** One client's standings with all operators, the newest first, as far back as they still count. */
export function thoseThatCount(standings: readonly Standing[]): readonly Standing[] {
  const newestFirst = standings.toSorted((one, other) => other.openedMs - one.openedMs)
  const last = newestFirst.findIndex(({ carriesOver }) => !carriesOver)
  return last === -1 ? newestFirst : newestFirst.slice(0, last + 1)
}

/** Whether a client with these standings, the newest first, enforces exactly this content of the resource. */
export function enforces(
  standings: readonly Standing[],
  { name, hash }: Pick<Resource, 'name' | 'hash'>,
): boolean {
  const proven = standings.find(({ inForce }) => inForce !== undefined)
  return proven?.inForce?.resources.get(name)?.hash === hash
}

/**
 * What a client with these standings said when it refused exactly this content; undefined when it did not.
 */
export function refusalOf(
  standings: readonly Standing[],
  { name, hash }: Pick<Resource, 'name' | 'hash'>,
): string | undefined {
  const refusals = standings.map(({ refusals }) => refusals.get(name))
  return refusals.find(refusal => refusal?.hash === hash)?.message
}
