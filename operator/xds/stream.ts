import { readRefusal, refusalText } from './read-refusal.ts'
import { createSnapshot, type Resource, type Snapshot } from './snapshot.ts'

/**
 * What the server knows of one stream and one type of the State of the World protocol. Pure: `step` says what follows
 * from an event, and the caller does it.
 */
export interface StreamState {
  /** Begins every nonce, so that no other stream's nonce is taken for one of this. */
  readonly nonceScope: string
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

export type StreamEvent =
  | { readonly kind: 'snapshot'; readonly snapshot: Snapshot }
  | {
      readonly kind: 'request'
      readonly versionInfo: string
      readonly responseNonce: string
      /** The text of `error_detail`; undefined without one. */
      readonly error: string | undefined
    }

export type StreamEffect =
  | { readonly kind: 'send'; readonly response: Response }
  | { readonly kind: 'acknowledged'; readonly snapshot: Snapshot }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** The request answers none of this stream's responses, or one that was answered before. */
  | { readonly kind: 'ignored'; readonly nonce: string }

export interface Refusal {
  /** What was sent. */
  readonly snapshot: Snapshot
  /** The resources that the client found wrong, with what it says of each. Empty when it named none of them. */
  readonly named: readonly { readonly resource: Resource; readonly text: string }[]
  /** The whole refusal in one line. */
  readonly text: string
}

export interface Step {
  readonly state: StreamState
  readonly effects: readonly StreamEffect[]
}

/** Contents of a resource that some client has acknowledged, the best first. */
export type LastGood = (name: string) => Iterable<Resource>

/**
 * Beyond these a stream forgets: the versions that it refused first, and contents that the snapshot no longer has. That
 * costs it one response more that it refuses, should they come back.
 */
export const streamLimits = { maxRefusedVersions: 1000, maxRefusedContents: 1000 } as const

export function newStream(nonceScope: string, snapshot: Snapshot | undefined): StreamState {
  return {
    nonceScope,
    snapshot,
    opened: false,
    sentCount: 0,
    outstanding: undefined,
    acknowledged: undefined,
    refusedVersions: new Set(),
    refusedContents: new Set(),
  }
}

/**
 * - The first request is always answered, whatever version and nonce it claims, and proves nothing.
 * - A later request counts only if it carries the nonce of the outstanding response. With that response's version and
 *   no error it is an ACK; with an error, or another version (the protocol's older form), a NACK.
 * - While a response is outstanding nothing is sent. Then the newest snapshot is, if the client does not have it.
 * - A version that was refused is not sent again. If the refusal named resources, only their refused content is
 *   withheld: they go out as they were last acknowledged, or not at all, and the others go on. If it named none,
 *   everything waits until the snapshot changes.
 */
export function step(state: StreamState, event: StreamEvent, lastGood: LastGood): Step {
  if (event.kind === 'snapshot') return offer({ ...state, snapshot: event.snapshot }, [], lastGood)
  if (!state.opened) return offer({ ...state, opened: true }, [], lastGood)
  const { outstanding } = state
  if (outstanding === undefined || event.responseNonce !== outstanding.nonce) {
    return { state, effects: [{ kind: 'ignored', nonce: event.responseNonce }] }
  }
  const { snapshot } = outstanding
  const answered = { ...state, outstanding: undefined }
  if (event.error === undefined && event.versionInfo === snapshot.version) {
    return offer({ ...answered, acknowledged: snapshot }, [{ kind: 'acknowledged', snapshot }], lastGood)
  }
  const message = event.error ?? `answered with the version ${JSON.stringify(event.versionInfo)} and no error`
  const refusal = understand(message, snapshot)
  return offer(withRefusal(answered, refusal), [{ kind: 'refused', refusal }], lastGood)
}

/** Sends what the client should have, if it may be sent now and would be news. */
function offer(state: StreamState, effects: readonly StreamEffect[], lastGood: LastGood): Step {
  if (!state.opened || state.outstanding !== undefined || state.snapshot === undefined) {
    return { state, effects }
  }
  const snapshot = withoutRefused(state, state.snapshot, lastGood)
  const isKnown = snapshot.version === state.acknowledged?.version
  if (isKnown || state.refusedVersions.has(snapshot.version)) return { state, effects }
  const sentCount = state.sentCount + 1
  const response = { nonce: `${state.nonceScope}-${sentCount}`, snapshot }
  return {
    state: { ...state, sentCount, outstanding: response },
    effects: [...effects, { kind: 'send', response }],
  }
}

/** The snapshot as this stream may get it: the same, or one in which refused contents are replaced or left out. */
function withoutRefused(state: StreamState, snapshot: Snapshot, lastGood: LastGood): Snapshot {
  if (state.refusedContents.size === 0) return snapshot
  let differs = false
  const resources: Resource[] = []
  for (const resource of snapshot.resources.values()) {
    const allowed = isRefused(state, resource) ? replacementFor(state, resource.name, lastGood) : resource
    if (allowed !== resource) differs = true
    if (allowed !== undefined) resources.push(allowed)
  }
  return differs ? createSnapshot(snapshot.typeUrl, resources) : snapshot
}

/** What this stream acknowledged is newer than what `lastGood` can know. */
function replacementFor(state: StreamState, name: string, lastGood: LastGood): Resource | undefined {
  const own = state.acknowledged?.resources.get(name)
  if (own !== undefined && !isRefused(state, own)) return own
  for (const resource of lastGood(name)) if (!isRefused(state, resource)) return resource
  return undefined
}

function isRefused(state: StreamState, resource: Resource): boolean {
  return state.refusedContents.has(contentKey(resource))
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
