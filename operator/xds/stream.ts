import { readRejection, rejectionText } from './read-rejection.ts'
import { createSnapshot, type Resource, type Snapshot } from './snapshot.ts'

/**
 * The server's state of one stream and one type of the State of the World protocol. Pure: the caller passes
 * requests to `receive` and new snapshots to `renew`, records the outcome, and sends what `offer` returns.
 */
export interface StreamState {
  /** The beginning of every nonce, so that the nonces of different streams differ. */
  readonly nonceScope: string
  /** The features of the client. Resources that need a feature beyond these are withheld. */
  readonly features: ReadonlySet<string>
  /** The newest snapshot; undefined until the sources have synced. Until then no request is answered. */
  readonly snapshot: Snapshot | undefined
  readonly opened: boolean
  readonly sentCount: number
  /** The response that the client has not answered yet; undefined if there is none. */
  readonly outstanding: Response | undefined
  /** The snapshot that the client acknowledged last on this stream. */
  readonly acknowledged: Snapshot | undefined
  /** The versions that the client rejected on this stream. They are not sent on it again. */
  readonly rejectedVersions: ReadonlySet<string>
  /**
   * The contents of single resources that the client rejected on this stream, as `contentKey`s. They are
   * withheld.
   */
  readonly rejectedContents: ReadonlySet<string>
}

export interface Response {
  readonly nonce: string
  readonly snapshot: Snapshot
}

interface StreamRequest {
  readonly versionInfo: string
  readonly responseNonce: string
  /** The text of `error_detail`; undefined if the request has no `error_detail`. */
  readonly error: string | undefined
}

export type RequestOutcome =
  /** The first request of its stream. An empty version means that the client has nothing in force. */
  | { readonly kind: 'opened'; readonly claimedVersion: string }
  | { readonly kind: 'acknowledged'; readonly snapshot: Snapshot }
  | { readonly kind: 'rejected'; readonly rejection: ResponseRejection }
  /** The request answers no response of this stream, or one that was answered before. It has no effect. */
  | { readonly kind: 'ignored' }

export interface ResponseRejection {
  /** The snapshot of the rejected response. */
  readonly snapshot: Snapshot
  /** The resources that the client rejected, each with the reason. Empty if the client named none. */
  readonly named: readonly { readonly resource: Resource; readonly text: string }[]
  readonly text: string
}

/** Returns contents of a resource that this client or another one has acknowledged, the best first. */
type LastGood = (name: string) => Iterable<Resource>

/**
 * Beyond these limits, a stream forgets the versions that were rejected first, and rejected contents that the
 * snapshot no longer has. If a forgotten one is published again, the client gets and rejects it once more.
 */
export const streamLimits = { maxRejectedVersions: 1000, maxRejectedContents: 1000 } as const

export function createStreamState(
  nonceScope: string,
  snapshot: Snapshot | undefined,
  features: ReadonlySet<string> = new Set(),
): StreamState {
  return {
    nonceScope,
    features,
    snapshot,
    opened: false,
    sentCount: 0,
    outstanding: undefined,
    acknowledged: undefined,
    rejectedVersions: new Set(),
    rejectedContents: new Set(),
  }
}

/** Replaces the snapshot. An older snapshot that was not sent yet is never sent. */
export function renew(state: StreamState, snapshot: Snapshot): StreamState {
  return { ...state, snapshot }
}

/**
 * Applies a request.
 *
 * - The first request of a stream is neither an ACK nor a NACK: clients repeat the version and the nonce of
 *   another stream, even a version that they rejected there.
 * - A later request counts only if it has the nonce of the outstanding response. With the version of that
 *   response and no error it is an ACK; with an error, or with another version (an older form), a NACK.
 */
export function receive(
  state: StreamState,
  request: StreamRequest,
): { readonly state: StreamState; readonly outcome: RequestOutcome } {
  const { error, versionInfo } = request
  const { opened, outstanding } = state
  if (!opened) {
    return { state: { ...state, opened: true }, outcome: { kind: 'opened', claimedVersion: versionInfo } }
  }
  if (outstanding === undefined || request.responseNonce !== outstanding.nonce) {
    return { state, outcome: { kind: 'ignored' } }
  }
  const { snapshot } = outstanding
  const answered = { ...state, outstanding: undefined }
  if (error === undefined && versionInfo === snapshot.version) {
    return { state: { ...answered, acknowledged: snapshot }, outcome: { kind: 'acknowledged', snapshot } }
  }
  const message = error ?? `answered with the version ${JSON.stringify(versionInfo)} and no error`
  const rejection = readMessage(message, snapshot)
  return { state: withRejection(answered, rejection), outcome: { kind: 'rejected', rejection } }
}

/**
 * Returns the response to send now, if there is one.
 *
 * - The first request is always answered, as soon as there is a snapshot. While a response is outstanding,
 *   nothing is sent. After its answer, the newest snapshot is sent, unless the client has acknowledged it.
 * - A rejected version is not sent again. If the rejection named resources, only the rejected contents of
 *   these are withheld, and replaced by the last acknowledged contents if there are any; all other resources
 *   are sent. If the rejection named none, nothing is sent until the snapshot changes.
 * - A resource that needs a feature that the client lacks is withheld in the same way as a rejected one.
 */
export function offer(
  state: StreamState,
  lastGood: LastGood,
): { readonly state: StreamState; readonly response: Response | undefined } {
  const nothing = { state, response: undefined }
  if (!state.opened || state.outstanding !== undefined || state.snapshot === undefined) return nothing
  const snapshot = withoutWithheld(state, state.snapshot, lastGood)
  const isKnown = snapshot.version === state.acknowledged?.version
  if (isKnown || state.rejectedVersions.has(snapshot.version)) return nothing
  const sentCount = state.sentCount + 1
  const response = { nonce: `${state.nonceScope}-${sentCount}`, snapshot }
  return { state: { ...state, sentCount, outstanding: response }, response }
}

/** Returns the snapshot for this stream, in which withheld contents are replaced or left out. */
function withoutWithheld(state: StreamState, snapshot: Snapshot, lastGood: LastGood): Snapshot {
  if (state.rejectedContents.size === 0 && snapshot.features.isSubsetOf(state.features)) return snapshot
  let differs = false
  const resources: Resource[] = []
  for (const resource of snapshot.resources.values()) {
    const allowed = isWithheld(state, resource) ? replacementFor(state, resource.name, lastGood) : resource
    if (allowed !== resource) differs = true
    if (allowed !== undefined) resources.push(allowed)
  }
  return differs ? createSnapshot(snapshot.typeUrl, resources) : snapshot
}

function replacementFor(state: StreamState, name: string, lastGood: LastGood): Resource | undefined {
  for (const resource of lastGood(name)) if (!isWithheld(state, resource)) return resource
  return undefined
}

function isWithheld(state: StreamState, resource: Resource): boolean {
  if (state.rejectedContents.has(contentKey(resource))) return true
  return resource.features.some(feature => !state.features.has(feature))
}

/** Returns the key of a content. The hash has a fixed length, so no two contents have the same key. */
function contentKey({ hash, name }: Resource): string {
  return `${hash} ${name}`
}

function readMessage(message: string, snapshot: Snapshot): ResponseRejection {
  const named = [...readRejection(message, snapshot.resources.keys())].flatMap(([name, text]) => {
    const resource = snapshot.resources.get(name)
    return resource ? [{ resource, text }] : []
  })
  return { snapshot, named, text: rejectionText(message) }
}

function withRejection(state: StreamState, { snapshot, named }: ResponseRejection): StreamState {
  const rejectedVersions = new Set(state.rejectedVersions).add(snapshot.version)
  for (const oldest of rejectedVersions) {
    if (rejectedVersions.size <= streamLimits.maxRejectedVersions) break
    rejectedVersions.delete(oldest)
  }
  const keys = named.map(({ resource }) => contentKey(resource))
  return { ...state, rejectedVersions, rejectedContents: withContents(state, keys) }
}

/**
 * Adds rejected contents, and beyond the limit drops those that the snapshot no longer has. If too many are
 * left, the rejection counts as one that named no resource.
 */
function withContents(state: StreamState, added: readonly string[]): ReadonlySet<string> {
  const all = new Set([...state.rejectedContents, ...added])
  if (all.size <= streamLimits.maxRejectedContents) return all
  const present = new Set([...(state.snapshot?.resources.values() ?? [])].map(contentKey))
  const retained = new Set([...all].filter(key => present.has(key) || added.includes(key)))
  return retained.size <= streamLimits.maxRejectedContents ? retained : state.rejectedContents
}
