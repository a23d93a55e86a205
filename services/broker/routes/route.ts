/**
 * The configuration of the requests that a route matches, decoded from an AnimationStreamRoute. This file has
 * types and defaults only.
 */
export interface Route {
  /** `namespace/name` of its custom resource; empty for the default route. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly match: RouteMatch
  readonly rules: RouteRules
  readonly lateJoiners: LateJoiners
  readonly slowConsumers: SlowConsumers
  readonly concurrentRequests: ConcurrentRequests
  readonly limits: RouteLimits
  /** SHA-256 of the accepted tokens of each right; empty if the right needs no token. */
  readonly tokens: Readonly<Record<RouteRight, readonly Uint8Array[]>>
  /** Receives the begin and the end of each request; see `Notifier`. */
  readonly webhook?: RouteWebhook
  /** The names of the routes whose tokens these are, if they are not its own; see `guardRoutes`. */
  readonly guards?: Readonly<Partial<Record<RouteRight, string>>>
}

export interface RouteWebhook {
  readonly url: string
  /** Each signs, in the form of `webhookSecretForm`. */
  readonly secrets: readonly string[]
}

export const routeRights = ['push', 'pull'] as const
export type RouteRight = (typeof routeRights)[number]

/** Empty fields match any value. */
export interface RouteMatch {
  readonly sourceServiceId: string
  readonly streamIdPrefix: string
  readonly targetObjectId: string
}

/** The effect of a broken rule: none, a WARNING to producer and consumers, or the end of the request. */
export const ruleModes = ['off', 'warn', 'reject'] as const
export type RuleMode = (typeof ruleModes)[number]

export interface RouteRules {
  /** The header first and once, data after it, a status at the end. */
  readonly order: RuleMode
  /** Time codes of skeletal animation increase strictly, and those of two messages do not overlap. */
  readonly timeCodes: RuleMode
  /** The number of values agrees with the header. */
  readonly counts: RuleMode
  /** The format of the audio is accepted. */
  readonly audio: RuleMode
  /** Accepted in addition to 16-bit mono at 16, 44.1 and 48 kHz. A 0 matches any value. */
  readonly audioFormats: readonly AudioFormat[]
}

export interface AudioFormat {
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/** The messages after the header that a consumer gets if it connects while a request runs. */
export type LateJoiners =
  | { readonly from: 'now' }
  | { readonly from: 'start' }
  | { readonly from: 'last'; readonly seconds: number }

/** `wait` slows the producer, `drop-oldest` leaves reported gaps, `cut-off` ends the pull. */
export const slowConsumerPolicies = ['wait', 'drop-oldest', 'cut-off'] as const
type SlowConsumers = (typeof slowConsumerPolicies)[number]

/**
 * The handling of a request that begins while a pull serves another one: it is queued, or it replaces the
 * other request, which the pull reports with WARNING "superseded". With `refuse` this cannot occur: an object
 * of a stream has one request at a time, and the push of another is rejected with RESOURCE_EXHAUSTED.
 */
export const concurrentRequestPolicies = ['queue', 'newest', 'refuse'] as const
export type ConcurrentRequests = (typeof concurrentRequestPolicies)[number]

export interface RouteLimits {
  readonly messageBytes: number
  /** The maximum of one request that is kept for its consumers. */
  readonly bufferBytes: number
  readonly bufferSeconds: number
  /** The maximum time without a message from the producer. */
  readonly idleSeconds: number
  readonly totalSeconds: number
  /**
   * The maximum number of consumers of one request, and of concurrent requests of one route, in this process.
   */
  readonly consumers: number
  readonly streams: number
}

/** Applies to requests without a matching route, and has the default of each field. */
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
