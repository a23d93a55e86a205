/**
 * The types into which custom resources are translated. Only these reach the feed and the infrastructure. A
 * RateLimitConfig becomes a `RateLimitDomain` of the rate limit service, which has the only type of a rule.
 */

/** One AnimationStreamRoute that was judged right, its defaults filled in. */
export interface StreamRoute {
  /** `namespace/name` of its custom resource: the resource's name in the feed. */
  readonly name: string
  readonly match: StreamMatch
  readonly rules: StreamRules
  readonly lateJoiners:
    | { readonly from: 'now' | 'start' }
    | { readonly from: 'last'; readonly seconds: number }
  readonly slowConsumers: 'wait' | 'drop-oldest' | 'cut-off'
  readonly concurrentRequests: 'queue' | 'newest' | 'refuse'
  readonly limits: StreamLimits
  /** Where the tokens to push and to pull are, those to push only, and those to pull only. */
  readonly tokenSecret?: SecretEntry
  readonly pushTokenSecret?: SecretEntry
  readonly pullTokenSecret?: SecretEntry
  /** Receives the begin and the end of each request. */
  readonly webhook?: { readonly url: string; readonly secret: SecretEntry }
}

/** Empty fields match any value. */
export interface StreamMatch {
  readonly sourceServiceId: string
  readonly streamIdPrefix: string
  readonly targetObjectId: string
}

/** The rules for messages. A violation is ignored, reported to consumers, or ends the request. */
export interface StreamRules {
  readonly order: RuleMode
  readonly timeCodes: RuleMode
  readonly counts: RuleMode
  readonly audio: RuleMode
  /** 0 for any value. */
  readonly audioFormats: readonly {
    readonly channelCount: number
    readonly samplesPerSecond: number
    readonly bitsPerSample: number
  }[]
}

export type RuleMode = 'off' | 'warn' | 'reject'

export interface StreamLimits {
  readonly messageBytes: number
  readonly bufferBytes: number
  readonly bufferSeconds: number
  readonly idleSeconds: number
  readonly totalSeconds: number
  readonly consumers: number
  readonly streams: number
}

/** An entry of a Secret in the namespace of the resource that names it. */
export interface SecretEntry {
  readonly name: string
  readonly key: string
}

/** A route with all that a broker needs of it. */
export interface OpenedStreamRoute {
  readonly route: StreamRoute
  /** Milliseconds since the epoch; of equally specific routes the oldest counts. */
  readonly createdMs: number
  /** SHA-256 of each token that has the right, 32 bytes each; none where the right needs no token. */
  readonly tokens: { readonly push: readonly Uint8Array[]; readonly pull: readonly Uint8Array[] }
  /** Absent while the secret is missing that signs its messages. */
  readonly webhook?: { readonly url: string; readonly secrets: readonly string[] }
}

/** One Merchant that was judged right, its defaults filled in. */
export interface MerchantAccount {
  /** `namespace/name` of its custom resource. */
  readonly name: string
  readonly profile: MerchantProfile
  readonly app: {
    readonly name: string | null
    /** The age at which its API key is replaced; undefined for none. */
    readonly rotateAfterMs: number | undefined
    /** For how long the key before stays valid after a rotation. */
    readonly keyGraceMs: number
  }
  readonly secret: {
    readonly name: string
    /** The names of its entries, by what they hold. */
    readonly entries: Readonly<Record<CredentialName, string>>
  }
  /** E-mail addresses of people who are invited. */
  readonly users: readonly string[]
  readonly webhooks: readonly MerchantWebhook[]
  /** What becomes of the merchant when its resource is gone. */
  readonly onDeletion: 'retain' | 'close'
  /** A merchant that is there already, and an API key that has it. */
  readonly adopt?: { readonly merchantId: string; readonly apiKey: SecretEntry }
}

/** What the payments service knows of a merchant. Only name, email and descriptor ever change. */
export interface MerchantProfile {
  readonly name: string | null
  readonly currency: string
  readonly test: boolean
  readonly email: string
  readonly website: string
  readonly descriptor: string
  readonly company: { readonly country: string; readonly number: string | null }
  readonly bank: { readonly iban: string } | null
}

export interface MerchantWebhook {
  readonly url: string
  /** Types of events; empty for all. */
  readonly events: readonly string[]
  /** What signatures are made with. */
  readonly secret: SecretEntry
}

/** What a merchant's Secret holds. */
export type CredentialName = 'apiKey' | 'appId' | 'merchantId' | 'publicKey' | 'baseUrl' | 'payPageUrl'

/** The services that the operator runs. */
export const serviceNames = ['ratelimit', 'broker', 'payments'] as const

export type ServiceName = (typeof serviceNames)[number]

/** A service to run, with a number of equal replicas. */
export interface Workload {
  /** Unique: `ratelimit`. */
  readonly name: string
  /** Which of our services it is. */
  readonly service: ServiceName
  readonly replicas: number
  /** More and fewer of them as the load asks for; `replicas` is then where it begins. Only in a cluster. */
  readonly autoscaling?: Autoscaling
  /** The service's settings, the same for each replica; secrets are not among them. */
  readonly env: Readonly<Record<string, string>>
  /** Secrets that a replica reads as files, for which settings in `env` name the paths. Only in a cluster. */
  readonly secretFiles?: readonly SecretFiles[]
  /**
   * Changes with the content of those `secretFiles` that replicas read only at start; a change replaces the
   * replicas. Without it the content is unknown, and the replicas keep what they have. Only in a cluster.
   */
  readonly secretsDigest?: string
  /** The ports that others use, shared by the replicas. */
  readonly ports: readonly ServicePort[]
  /** The pages of readiness and liveness. Only a cluster reads them. */
  readonly probes?: { readonly ready: Probe; readonly alive: Probe }
  /** How long a replica may take from SIGTERM to its end. */
  readonly stopGraceMs: number
}

export interface Autoscaling {
  readonly minReplicas: number
  readonly maxReplicas: number
  /** Of the CPU that a replica asks for, on average; 0 to scale by `metrics` alone. */
  readonly targetCpuPercent: number
  /** More metrics, and the behavior, as a HorizontalPodAutoscaler has them. */
  readonly metrics: readonly Readonly<Record<string, unknown>>[]
  readonly behavior: Readonly<Record<string, unknown>>
}

export interface ServicePort {
  /** `grpc`, `http`. */
  readonly name: string
  readonly port: number
  /**
   * How others find it in a cluster: `each` replica by its own address (for HTTP/2, whose connections last),
   * `any` of them behind one address, or `pods`: only by the list of the pods. The default is `any`.
   */
  readonly reach?: 'each' | 'any' | 'pods'
  /** Who may call it: anybody when left out, or the operator alone. Only a cluster asks who calls. */
  readonly callers?: 'operator'
}

/** The ports that one process on this machine does not share with the others, on the loopback address. */
export interface OwnPorts {
  readonly debug: number
  /** Undefined if there are no metrics, or if the port for debugging serves them. */
  readonly metrics?: number
  /** Only the operator calls it. */
  readonly provision?: number
}

/** A GET that is answered by 200, or by nothing and errors. */
export interface Probe {
  /** The name of the port. */
  readonly port: string
  readonly path: string
}

/** The entries of a Secret, each a file of its name in the folder. The Secret may not be there yet. */
export interface SecretFiles {
  /** `feed-tls`. */
  readonly name: string
  readonly secretName: string
  /** Only these entries; all of them without it. */
  readonly keys?: readonly string[]
  readonly folder: string
  /** A replica reads the files again when they change. Otherwise a change replaces the replica. */
  readonly isReread?: true
}
