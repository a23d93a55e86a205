import type { Resource, Snapshot } from './snapshot.ts'

/** The client of a stream, as its first request describes it. */
export interface FeedClient {
  /** The `uid` of node.metadata; unique to a pod or a process. */
  readonly uid: string
  /** The name of the pod, for people. */
  readonly pod: string
  /**
   * The index of the worker, from 0, and the number of workers of the pod; undefined if the pod is a single
   * process.
   */
  readonly worker?: { readonly index: number; readonly of: number } | undefined
  readonly nodeId: string
  readonly namespace: string
  /** The extensions of the feed, beyond envoyproxy/ratelimit, that the client understands. */
  readonly features: readonly string[]
  readonly peer: string
}

/** The field of node.metadata with the features of a client, separated by commas. */
export const featuresField = 'tollway.features'

/** The maximum number of features of a client; further ones are ignored. */
export const maxFeatures = 100

/** The maximum number of workers of a pod. The worker numbers of a pod with more are ignored. */
export const maxWorkers = 64

export function clientId({ uid, worker }: Pick<FeedClient, 'uid' | 'worker'>): string {
  return worker === undefined ? uid : workerId(uid, worker.index)
}

export const workerId = (uid: string, index: number) => `${uid} worker ${index}`

/** The state of one client for one type, as the newest stream of the client to one operator shows it. */
export interface ClientState {
  readonly client: FeedClient
  /** Whether the stream is open. */
  readonly connected: boolean
  /** The time at which the stream was opened, by the monotonic clock of this process. */
  readonly openedMs: number
  /**
   * Whether the first request named a version in force. If so, acknowledgements on older streams to other
   * operators still count.
   */
  readonly carriesOver: boolean
  /** The acknowledged contents; undefined if there are none. */
  readonly inForce: HeldContents | undefined
  /** The rejected contents by the name of the resource. */
  readonly rejections: ReadonlyMap<string, RejectedContent>
}

/**
 * The resources of a version, each with the hash that is compared with the hash of the published resource.
 */
export interface HeldContents extends Pick<Snapshot, 'version'> {
  readonly resources: ReadonlyMap<string, Pick<Resource, 'hash'>>
}

export interface RejectedContent {
  readonly hash: string
  /** The reason of the client, in one line. */
  readonly message: string
}

/**
 * The reports of other operators about clients. A client has one state for each operator to which it had
 * streams.
 */
export interface RemotePeers {
  clientStates(typeUrl: string, clientId: string): readonly ClientState[]
  /** Returns the clients that have a stream to another operator. */
  clients(): readonly FeedClient[]
  onChange(listener: () => void): void
}

/**
 * Returns those states of one client that count, the newest first: the state of the last stream that did not
 * carry over older acknowledgements, and all newer ones. An open stream counts as newer than an ended one: an
 * operator that stood still opens the streams of that time afterwards, although their clients have left.
 */
export function effectiveStates(clientStates: readonly ClientState[]): readonly ClientState[] {
  const newestFirst = clientStates.toSorted(
    (one, other) => Number(other.connected) - Number(one.connected) || other.openedMs - one.openedMs,
  )
  const last = newestFirst.findIndex(({ carriesOver }) => !carriesOver)
  return last === -1 ? newestFirst : newestFirst.slice(0, last + 1)
}

/** Returns whether a client with these states, the newest first, enforces exactly this content. */
export function enforces(
  clientStates: readonly ClientState[],
  { name, hash }: Pick<Resource, 'name' | 'hash'>,
): boolean {
  const proven = clientStates.find(({ inForce }) => inForce !== undefined)
  return proven?.inForce?.resources.get(name)?.hash === hash
}

/**
 * Returns the reason for which a client with these states rejected exactly this content; undefined if it did
 * not.
 */
export function findRejectionText(
  clientStates: readonly ClientState[],
  { name, hash }: Pick<Resource, 'name' | 'hash'>,
): string | undefined {
  const rejections = clientStates.map(({ rejections }) => rejections.get(name))
  return rejections.find(rejection => rejection?.hash === hash)?.message
}
