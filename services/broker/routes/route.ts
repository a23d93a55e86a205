/**
 * A route: what applies to the requests that it matches. It is decoded from the resource `StreamRoute`. This
 * file has only types and defaults.
 */
export interface Route {
  /** The `namespace/name` of the route's custom resource; empty for the default route. */
  readonly name: string
  /** When the custom resource was created, in milliseconds since the epoch. */
  readonly createdMs: number
  readonly match: RouteMatch
  readonly rules: RouteRules
  readonly lateJoiners: LateJoiners
  readonly slowConsumers: SlowConsumers
  readonly concurrentRequests: ConcurrentRequests
  readonly limits: RouteLimits
  /** The SHA-256 hashes of the tokens that grant each right; empty if the right needs no token. */
  readonly tokens: Readonly<Record<RouteRight, readonly Uint8Array[]>>
  /** Receives the begin and the end of each request; see `Notifier`. */
  readonly webhook?: RouteWebhook
  /**
   * For each right whose tokens come from other routes, the name of the first of those; see `guardRoutes`.
   */
  readonly guards?: Readonly<Partial<Record<RouteRight, string>>>
}

export interface RouteWebhook {
  readonly url: string
  /** Each notification is signed with all of these. `findWebhookSecretProblem` checks their form. */
  readonly secrets: readonly string[]
}

export const routeRights = ['push', 'pull'] as const
export type RouteRight = (typeof routeRights)[number]

/** The ids that a request must have; an empty field matches any value. */
export interface RouteMatch {
  readonly sourceServiceId: string
  readonly streamIdPrefix: string
  readonly targetObjectId: string
}

/**
 * What follows when a rule is broken: nothing, a WARNING to producer and consumers, or the end of the
 * request.
 */
export const ruleModes = ['off', 'warn', 'reject'] as const
export type RuleMode = (typeof ruleModes)[number]

export interface RouteRules {
  /** The header comes first and once, data after it, and a status at the end. */
  readonly order: RuleMode
  /** Time codes of skeletal animation increase strictly, and those of two messages do not overlap. */
  readonly timeCodes: RuleMode
  /** The numbers of values agree with the header. */
  readonly counts: RuleMode
  /** The format of the audio is accepted. */
  readonly audio: RuleMode
  /**
   * Formats that are accepted in addition to 16-bit mono at 16, 44.1 and 48 kHz. A 0 in them matches any
   * value.
   */
  readonly audioFormats: readonly AudioFormat[]
}

export interface AudioFormat {
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/**
 * The kept messages that a consumer gets if it connects while a request is running: none, all, or those of
 * the last seconds. It gets the header in any case.
 */
export type LateJoiners =
  | { readonly from: 'now' }
  | { readonly from: 'start' }
  | { readonly from: 'last'; readonly seconds: number }

/**
 * What happens when a consumer is too slow: the producer waits (`wait`), messages are dropped and the gap is
 * reported (`drop-oldest`), or the pull ends (`cut-off`).
 */
export const slowConsumerPolicies = ['wait', 'drop-oldest', 'cut-off'] as const
type SlowConsumers = (typeof slowConsumerPolicies)[number]

/**
 * What happens to a request that begins while a pull serves another one. With `queue` it waits. With `newest`
 * it replaces the other request, which the pull reports with WARNING "superseded". With `refuse` this cannot
 * occur: an object of a stream has one request at a time, and the push of another is rejected with
 * RESOURCE_EXHAUSTED.
 */
export const concurrentRequestPolicies = ['queue', 'newest', 'refuse'] as const
export type ConcurrentRequests = (typeof concurrentRequestPolicies)[number]

export interface RouteLimits {
  readonly messageBytes: number
  /** At most this many bytes of one request are kept for its consumers. */
  readonly bufferBytes: number
  readonly bufferSeconds: number
  /** The producer must send a message at least once in this time. */
  readonly idleSeconds: number
  readonly totalSeconds: number
  /**
   * One request may have this many consumers, and the route this many running requests (`streams`), in this
   * process.
   */
  readonly consumers: number
  readonly streams: number
}

/** The route of requests that no other route matches. It has the default of each field. */
export const defaultRoute: Route = {
  name: '',
  createdMs: 0,
  match: { sourceServiceId: '', streamIdPrefix: '', targetObjectId: '' },
  rules: { order: 'warn', timeCodes: 'warn', counts: 'warn', audio: 'warn', audioFormats: [] },
  lateJoiners: { from: 'now' },
  slowConsumers: 'wait',
  concurrentRequests: 'queue',
  limits: {
    messageBytes: 4 * 1024 * 1024,
    bufferBytes: 4 * 1024 * 1024,
    bufferSeconds: 30,
    idleSeconds: 30,
    totalSeconds: 3600,
    consumers: 1000,
    streams: 1000,
  },
  tokens: { push: [], pull: [] },
}
