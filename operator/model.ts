/**
 * The types into which custom resources are translated. Only these reach the feed and the infrastructure. A
 * RateLimitConfig becomes a `RateLimitDomain` of the rate limit service, which has the only type of a rule.
 */
import type { Route } from '@tollway/broker/routes/route.ts'
import type { MerchantInput } from '@tollway/payments/domain/merchant.ts'

/**
 * The content of a valid AnimationStreamRoute: the route for brokers, which names Secrets instead of having
 * their values.
 */
export interface StreamRoute extends Omit<Route, 'createdMs' | 'guards' | 'tokens' | 'webhook'> {
  /** The Secret with the tokens for pushes and pulls. The other two are for pushes only, and for pulls only. */
  readonly tokenSecret?: SecretEntry
  readonly pushTokenSecret?: SecretEntry
  readonly pullTokenSecret?: SecretEntry
  /** The webhook, which receives the begin and the end of each request. */
  readonly webhook?: { readonly url: string; readonly secret: SecretEntry }
}

/** An entry of a Secret in the namespace of the resource that names it. */
export interface SecretEntry {
  readonly name: string
  readonly key: string
}

/**
 * A route with everything that a broker needs. `webhook` is undefined while the Secret has no signing secret
 * for it.
 */
export interface OpenedStreamRoute extends Pick<Route, 'createdMs' | 'tokens' | 'webhook'> {
  readonly route: StreamRoute
}

/** The content of a valid Merchant, with its defaults. */
export interface MerchantAccount {
  /** The `namespace/name` of its custom resource. */
  readonly name: string
  readonly profile: MerchantInput
  readonly app: {
    readonly name: string | null
    /** The age at which the API key is replaced; undefined if it never is. */
    readonly rotateAfterMs: number | undefined
    /** How long the replaced key stays valid. */
    readonly keyGraceMs: number
  }
  readonly secret: {
    readonly name: string
    /** The name of the entry of the Secret for each credential. */
    readonly entries: Readonly<Record<CredentialName, string>>
  }
  readonly users: readonly string[]
  readonly webhooks: readonly MerchantWebhook[]
  /** Whether the merchant is retained or closed when the resource is deleted. */
  readonly onDeletion: 'retain' | 'close'
  /** The existing merchant that the resource takes over, and the Secret with an API key of that merchant. */
  readonly adopt?: { readonly merchantId: string; readonly apiKey: SecretEntry }
}

interface MerchantWebhook {
  readonly url: string
  /** The types of events; empty for all. */
  readonly events: readonly string[]
  /** The entry of a Secret with the signing secrets of this webhook. */
  readonly secret: SecretEntry
}

type CredentialName = 'apiKey' | 'appId' | 'merchantId' | 'publicKey' | 'baseUrl' | 'payPageUrl'

export const serviceNames = ['ratelimit', 'broker', 'payments'] as const

export type ServiceName = (typeof serviceNames)[number]

/** A service to run, with a number of equal replicas. */
export interface Workload {
  /** The unique name, such as `ratelimit`. */
  readonly name: string
  readonly service: ServiceName
  readonly replicas: number
  /**
   * Scales the replicas with the load; `replicas` is then only the initial number. Used only in a cluster.
   */
  readonly autoscaling?: Autoscaling
  /** The service's settings, the same for each replica; secrets are not among them. */
  readonly env: Readonly<Record<string, string>>
  /**
   * Secrets that a replica reads as files, at the paths that settings in `env` name. Used only in a cluster.
   */
  readonly secretFiles?: readonly SecretFiles[]
  /**
   * A digest of those `secretFiles` that replicas read only at start. A change of it replaces the replicas.
   * Undefined while the content is unknown: the replicas are then kept. Used only in a cluster.
   */
  readonly secretsDigest?: string
  /** The ports to which other processes connect. All replicas have the same port numbers. */
  readonly ports: readonly ServicePort[]
  /** The pages of readiness and liveness. Only a cluster reads them. */
  readonly probes?: { readonly ready: Probe; readonly alive: Probe }
  /** The time that a replica has to end after SIGTERM. */
  readonly stopGraceMs: number
}

interface Autoscaling {
  readonly minReplicas: number
  readonly maxReplicas: number
  /** The average use of the requested CPU in percent; 0 to scale by `metrics` alone. */
  readonly targetCpuPercent: number
  /** Further metrics, and the behavior, in the form of a HorizontalPodAutoscaler. */
  readonly metrics: readonly Readonly<Record<string, unknown>>[]
  readonly behavior: Readonly<Record<string, unknown>>
}

export interface ServicePort {
  /** The name of the port: `grpc`, `http`. */
  readonly name: string
  readonly port: number
  /**
   * How callers in a cluster reach the port. `each`: every replica by its own address, for HTTP/2, whose
   * connections are long-lived. `any`, the default: one address for all replicas. `pods`: only callers that
   * list the pods.
   */
  readonly reach?: 'each' | 'any' | 'pods'
  /**
   * Only the operator may call the port; every caller may when left out. Only a cluster restricts callers.
   */
  readonly callers?: 'operator'
}

/** The ports of one process on the loopback address of this machine. Each process has different ports. */
export interface OwnPorts {
  readonly debug: number
  /** Undefined if there are no metrics, or if the `debug` port serves them. */
  readonly metrics?: number
  /** The port that only the operator calls. */
  readonly provision?: number
}

/** A page that answers 200 while the check succeeds. */
export interface Probe {
  readonly port: string
  readonly path: string
}

/**
 * The entries of a Secret as files in `folder`. Each file has the name of the entry. The Secret may be
 * created after the replica.
 */
export interface SecretFiles {
  /** The name of the volume, such as `feed-tls`. */
  readonly name: string
  readonly secretName: string
  /** The mounted entries; all of them when left out. */
  readonly keys?: readonly string[]
  readonly folder: string
  /**
   * The values of the Helm chart that set the name of the Secret, for messages to people; undefined for a
   * Secret that the operator creates.
   */
  readonly namedBy?: string
  /** Set if a replica reads changed files again. Otherwise a change replaces the replica. */
  readonly isReread?: true
}
