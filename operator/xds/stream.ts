import { readRefusal, refusalText } from './read-refusal.ts'
import { createSnapshot, type Resource, type Snapshot } from './snapshot.ts'

/**
 * What the server knows of one stream and one type of the State of the World protocol. Pure: a request goes
 * to
 * `receive`, a new snapshot to `renew`; the caller notes what came of it, and then asks `offer` what is to be
 * sent.
 */
export interface StreamState {
  /** Begins every nonce, so that no other stream's nonce is taken for one of this. */
  readonly nonceScope: string
  /** The features of the client: a resource that needs another one is withheld. */
  readonly features: ReadonlySet<string>
  /** The newest there is; undefined before the sources have synced, and until then nothing is answered. */
  readonly snapshot: Snapshot | undefined
  /** Whether the first request came. */
  readonly opened: boolean
  /** How many responses were sent. */
  readonly sentCount: number
  /** The response that the client has not yet answered. There is one at most. */
  readonly outstanding: Response | undefined
  /** What the client has acknowledged last on this stream. */
  readonly acknowledged: Snapshot | undefined
  /** Versions that this stream refused: they are not sent to it again. */
  readonly refusedVersions: ReadonlySet<string>
  /** Contents of single resources that this stream refused, by `contentKey`: they are withheld from it. */
  readonly refusedContents: ReadonlySet<string>
}

export interface Response {
  readonly nonce: string
  readonly snapshot: Snapshot
}

export interface Request {
  readonly versionInfo: string
  readonly responseNonce: string
  /** The text of `error_detail`; undefined without one. */
  readonly error: string | undefined
}

/** What a request means. */
export type Outcome =
  /** The first of its stream. An empty version says that the client has nothing in force. */
  | { readonly kind: 'opened'; readonly claimedVersion: string }
  | { readonly kind: 'acknowledged'; readonly snapshot: Snapshot }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** It answers none of this stream's responses, or one that was answered before. Nothing follows from it. */
  | { readonly kind: 'ignored' }

export interface Refusal {
  /** The sent snapshot. */
  readonly snapshot: Snapshot
  /** The resources that the client found wrong, with what it says of each. Empty when it named none. */
  readonly named: readonly { readonly resource: Resource; readonly text: string }[]
  /** The whole refusal in one line. */
  readonly text: string
}

/** Contents of a resource that this or some other client has acknowledged, the best first. */
export type LastGood = (name: string) => Iterable<Resource>

/**
 * Beyond these a stream forgets: the versions that it refused first, and contents that the snapshot no longer
 * has. That
 * costs it one response more that it refuses, should they come back.
 */
export const streamLimits = { maxRefusedVersions: 1000, maxRefusedContents: 1000 } as const

export function newStream(
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
    refusedVersions: new Set(),
    refusedContents: new Set(),
  }
}

/** There is a newer snapshot. What the client has yet to be sent of older ones is forgotten. */
export function renew(state: StreamState, snapshot: Snapshot): StreamState {
  return { ...state, snapshot }
}

/**
 * - The first request of a stream proves nothing, whatever version and nonce it claims: clients repeat what
 * they had on
 *   another stream, and even a version that they refused there.
 * - A later request counts only if it carries the nonce of the outstanding response. With that response's
 * version and
 *   no error it is an ACK; with an error, or another version (the protocol's older form), a NACK.
 */
export function receive(
  state: StreamState,
  request: Request,
): { readonly state: StreamState; readonly outcome: Outcome } {
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
  const refusal = understand(message, snapshot)
  return { state: withRefusal(answered, refusal), outcome: { kind: 'refused', refusal } }
}

/**
 * - The first request is always answered, as soon as there is a snapshot. While a response is outstanding
 * nothing is
 *   sent; then the newest snapshot is, unless it is what the client acknowledged last.
 * - A version that was refused is not sent again. If the refusal named resources, only their refused content
 * is
 * withheld: they go out as they were last acknowledged, or not at all, and the others go on. If it named
 * none,
 *   everything waits until the snapshot changes.
 * - A resource that needs a feature that the client lacks is withheld in the same way.
 */
export function offer(
  state: StreamState,
  lastGood: LastGood,
): { readonly state: StreamState; readonly response: Response | undefined } {
  const nothing = { state, response: undefined }
  if (!state.opened || state.outstanding !== undefined || state.snapshot === undefined) return nothing
  const snapshot = withoutWithheld(state, state.snapshot, lastGood)
  const isKnown = snapshot.version === state.acknowledged?.version
  if (isKnown || state.refusedVersions.has(snapshot.version)) return nothing
  const sentCount = state.sentCount + 1
  const response = { nonce: `${state.nonceScope}-${sentCount}`, snapshot }
  return { state: { ...state, sentCount, outstanding: response }, response }
}

/** The snapshot as this stream may get it: withheld contents are replaced, or left out. */
function withoutWithheld(state: StreamState, snapshot: Snapshot, lastGood: LastGood): Snapshot {
  if (state.refusedContents.size === 0 && snapshot.features.isSubsetOf(state.features)) return snapshot
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
  if (state.refusedContents.has(contentKey(resource))) return true
  return resource.features.some(feature => !state.features.has(feature))
}

/** The hash has a fixed length, so no two contents share a key. */
function contentKey({ hash, name }: Resource): string {
  return `${hash} ${name}`
}

function understand(message: string, snapshot: Snapshot): Refusal {
  const named = [...readRefusal(message, snapshot.resources.keys())].flatMap(([name, text]) => {
    const resource = snapshot.resources.get(name)
    return resource ? [{ resource, text }] : []
  })
  return { snapshot, named, text: refusalText(message) }
}

function withRefusal(state: StreamState, { snapshot, named }: Refusal): StreamState {
  const refusedVersions = new Set(state.refusedVersions).add(snapshot.version)
  for (const oldest of refusedVersions) {
    if (refusedVersions.size <= streamLimits.maxRefusedVersions) break
    refusedVersions.delete(oldest)
  }
  const keys = named.map(({ resource }) => contentKey(resource))
  return { ...state, refusedVersions, refusedContents: withContents(state, keys) }
}

/** If even those of the present snapshot are too many, the refusal counts as one that named nothing. */
function withContents(state: StreamState, added: readonly string[]): ReadonlySet<string> {
  const all = new Set([...state.refusedContents, ...added])
  if (all.size <= streamLimits.maxRefusedContents) return all
  const present = new Set([...(state.snapshot?.resources.values() ?? [])].map(contentKey))
  const kept = new Set([...all].filter(key => present.has(key) || added.includes(key)))
  return kept.size <= streamLimits.maxRefusedContents ? kept : state.refusedContents
}
