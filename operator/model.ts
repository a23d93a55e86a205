/**
 * The types into which custom resources are translated. Only these reach the feed and the infrastructure. A
 * RateLimitConfig becomes a `RateLimitDomain` of the rate limit service, which has the only type of a rule.
 */
import type { Route } from '@tollway/broker/routes/route.ts'
import type { MerchantInput } from '@tollway/payments/domain/merchant/merchant.ts'

/** The content of a valid AnimationStreamRoute: a route of brokers that names its Secrets. */
export interface StreamRoute extends Omit<Route, 'createdMs' | 'guards' | 'tokens' | 'webhook'> {
  /** The Secrets with the tokens: for both rights, for pushes only, and for pulls only. */
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
 * A route with everything that a broker needs. The webhook is left out while its signing secret is missing.
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
    /** The age at which its API key is replaced; undefined for none. */
    readonly rotateAfterMs: number | undefined
    /** How long the earlier key stays valid after a rotation. */
    readonly keyGraceMs: number
  }
  readonly secret: {
    readonly name: string
    /** The names of the Secret's entries, by their values. */
    readonly entries: Readonly<Record<CredentialName, string>>
  }
  /** The e-mail addresses of invited users. */
  readonly users: readonly string[]
  readonly webhooks: readonly MerchantWebhook[]
  /** The effect of a deletion of the resource on the merchant. */
  readonly onDeletion: 'retain' | 'close'
  /** An existing merchant to adopt, and one of its API keys. */
  readonly adopt?: { readonly merchantId: string; readonly apiKey: SecretEntry }
}

interface MerchantWebhook {
  readonly url: string
  /** The types of events; empty for all. */
  readonly events: readonly string[]
  /** The entry with the signing secrets. */
  readonly secret: SecretEntry
}

/** The values in a merchant's Secret. */
type CredentialName = 'apiKey' | 'appId' | 'merchantId' | 'publicKey' | 'baseUrl' | 'payPageUrl'

/** The services that the operator runs. */
export const serviceNames = ['ratelimit', 'broker', 'payments'] as const

export type ServiceName = (typeof serviceNames)[number]

/** A service to run, with a number of equal replicas. */
export interface Workload {
  /** The unique name: `ratelimit`. */
  readonly name: string
  /** The service that the replicas run. */
  readonly service: ServiceName
  readonly replicas: number
  /** Scales the replicas with the load; `replicas` is then their initial number. Only in a cluster. */
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
  /** The time limit of a replica from SIGTERM to its end. */
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
  /** The name: `grpc`, `http`. */
  readonly name: string
  readonly port: number
  /**
   * How callers find the port in a cluster: `each` replica by its own address (for HTTP/2, whose connections
   * are long-lived), `any` of them behind one address, or `pods`: only by the list of the pods. `any` when
   * left out.
   */
  readonly reach?: 'each' | 'any' | 'pods'
  /**
   * The permitted callers: all when left out, or the operator alone. Only a cluster distinguishes callers.
   */
  readonly callers?: 'operator'
}

/** The ports that one process on this machine does not share with the others, on the loopback address. */
export interface OwnPorts {
  readonly debug: number
  /** Undefined if there are no metrics, or if the port for debugging serves them. */
  readonly metrics?: number
  /** The port that only the operator calls. */
  readonly provision?: number
}

/** A page that answers 200 while the check succeeds. */
export interface Probe {
  /** The name of the port. */
  readonly port: string
  readonly path: string
}

/** The entries of a Secret, each as a file of its name in the folder. The Secret may be created later. */
export interface SecretFiles {
  /** The name of the volume: `feed-tls`. */
  readonly name: string
  readonly secretName: string
  /** The mounted entries; all of them when left out. */
  readonly keys?: readonly string[]
  readonly folder: string
  /**
   * The values of the chart that name the Secret, for people; absent for a Secret that the operator creates.
   */
  readonly namedBy?: string
  /** Whether a replica reads the files again when they change. If not, a change replaces the replica. */
  readonly isReread?: true
}
