/** What applies to the requests that the route matches. Decoded from the resource `StreamRoute`. */
export interface Route {
  /** `namespace/name` of the custom resource; empty for the default route. */
  readonly name: string
  /** When the custom resource was created, in milliseconds since the epoch. */
  readonly createdMs: number
  readonly match: RouteMatch
  readonly rules: RouteRules
  readonly lateJoiners: LateJoiners
  readonly slowConsumers: SlowConsumers
  readonly concurrentRequests: ConcurrentRequests
  readonly limits: RouteLimits
  /** SHA-256 hashes; empty if the right needs no token. */
  readonly tokens: Readonly<Record<RouteRight, readonly Uint8Array[]>>
  /** See `Notifier`. */
  readonly webhook?: RouteWebhook
  /**
   * The name of the first of the other routes whose tokens apply to a right, if there are such routes; see
   * `guardRoutes`.
   */
  readonly guards?: Readonly<Partial<Record<RouteRight, string>>>
}

export interface RouteWebhook {
  readonly url: string
  /** Each notification is signed with all secrets, whose form `findWebhookSecretProblem` checks. */
  readonly secrets: readonly string[]
}

export const routeRights = ['push', 'pull'] as const
export type RouteRight = (typeof routeRights)[number]

/** An empty field matches any value. */
export interface RouteMatch {
  readonly sourceServiceId: string
  readonly streamIdPrefix: string
  readonly targetObjectId: string
}

/**
 * The effect of a violation: none (`off`), a WARNING to producer and consumers (`warn`), or the end of the
 * request (`reject`).
 */
export const ruleModes = ['off', 'warn', 'reject'] as const
export type RuleMode = (typeof ruleModes)[number]

export interface RouteRules {
  /** The header comes first and once, then data, and a status at the end. */
  readonly order: RuleMode
  /** Time codes of skeletal animation increase strictly, and messages do not overlap. */
  readonly timeCodes: RuleMode
  /** Arrays have as many values as the header says. */
  readonly counts: RuleMode
  readonly audio: RuleMode
  /** Formats that are accepted in addition to 16-bit mono at 16, 44.1 and 48 kHz. A 0 matches any value. */
  readonly audioFormats: readonly AudioFormat[]
}

export interface AudioFormat {
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/** Which of the kept messages a consumer gets, after the header, if it joins a running request. */
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
 * What happens to a request that begins while a pull serves another: it waits (`queue`), or replaces the
 * other, which the pull reports with WARNING "superseded" (`newest`). With `refuse` an object of a stream has
 * one request at a time, and the push of another is rejected with RESOURCE_EXHAUSTED.
 */
export const concurrentRequestPolicies = ['queue', 'newest', 'refuse'] as const
export type ConcurrentRequests = (typeof concurrentRequestPolicies)[number]

export interface RouteLimits {
  readonly messageBytes: number
  /** How many bytes of one request are kept for its consumers. */
  readonly bufferBytes: number
  readonly bufferSeconds: number
  /** The producer must send at least once in this time. */
  readonly idleSeconds: number
  readonly totalSeconds: number
  /**
   * The limits in this process: of the consumers of one request, and of the running requests of the route
   * (`streams`).
   */
  readonly consumers: number
  readonly streams: number
}

/** The route of requests that no other matches. It has the default of each field. */
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
