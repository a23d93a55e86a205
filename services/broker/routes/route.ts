/**
 * What holds for the requests that a route matches. Made from an AnimationStreamRoute; types and
 * defaults only.
 */
export interface Route {
  /** `namespace/name` of its custom resource; empty for what holds where no route matches. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly match: RouteMatch
  readonly rules: RouteRules
  readonly lateJoiners: LateJoiners
  readonly slowConsumers: SlowConsumers
  readonly concurrentRequests: ConcurrentRequests
  readonly limits: RouteLimits
  /** SHA-256 of the tokens that open it; none for one that is open to all. */
  readonly tokenHashes: readonly Uint8Array[]
  /** The name of the route whose tokens these are, where they are not its own; see `guardRoutes`. */
  readonly guard?: string
}

/** Empty fields match any value. */
export interface RouteMatch {
  readonly sourceServiceId: string
  readonly streamIdPrefix: string
  readonly targetObjectId: string
}

/** What a broken rule means: nothing, a WARNING to producer and consumers, or the end of the request. */
export const ruleModes = ['off', 'warn', 'reject'] as const
export type RuleMode = (typeof ruleModes)[number]

export interface RouteRules {
  /** Header first and once, data after it, a status at the end. */
  readonly order: RuleMode
  /** Time codes of skeletal animation increase strictly, and those of two messages do not overlap. */
  readonly timeCodes: RuleMode
  /** As many names, joints and weights as the header says. */
  readonly counts: RuleMode
  /** The format of the audio is one that is accepted. */
  readonly audio: RuleMode
  /** Accepted besides mono of 16 bits at 16, 44.1 and 48 kHz. A 0 stands for any value. */
  readonly audioFormats: readonly AudioFormat[]
}

export interface AudioFormat {
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/** What a consumer gets that comes while a request runs, after its header. */
export type LateJoiners =
  | { readonly from: 'now' }
  | { readonly from: 'start' }
  | { readonly from: 'last'; readonly seconds: number }

/** `wait` slows the producer, `drop-oldest` leaves gaps that are told, `cut-off` ends the pull. */
export const slowConsumerPolicies = ['wait', 'drop-oldest', 'cut-off'] as const
export type SlowConsumers = (typeof slowConsumerPolicies)[number]

/**
 * What becomes of a request that begins while a pull is served another: it waits for its turn, or it takes the
 * place of the other, which the pull is told by WARNING "superseded". With `refuse` it does not come to that: a
 * stream's object has one request at a time, and the push of another is refused with RESOURCE_EXHAUSTED.
 */
export const concurrentRequestPolicies = ['queue', 'newest', 'refuse'] as const
export type ConcurrentRequests = (typeof concurrentRequestPolicies)[number]

export interface RouteLimits {
  readonly messageBytes: number
  /** Of one request, kept for its consumers. */
  readonly bufferBytes: number
  readonly bufferSeconds: number
  /** Without a message from the producer. */
  readonly idleSeconds: number
  readonly totalSeconds: number
  /** Of one request, and requests at the same time of one route: in this process. */
  readonly consumers: number
  readonly streams: number
}

/** Holds where no route matches, and is each field's default in one that does. */
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
  tokenHashes: [],
}
