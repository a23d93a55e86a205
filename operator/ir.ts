/**
 * The waist of the operator: custom resources are translated into these, and only these reach the feed and
 * the infrastructure. Types only; nothing here knows YAML, Kubernetes or the wire.
 */

/** One RateLimitConfig that was judged right. */
export interface RateLimitDomain {
  /** `namespace/name` of its custom resource: the resource's name in the feed. */
  readonly name: string
  readonly domain: string
  readonly descriptors: readonly RateLimitRule[]
}

export interface RateLimitRule {
  readonly key: string
  /** Empty for a rule that matches any value. */
  readonly value: string
  readonly rateLimit?: RateLimitPolicy
  readonly shadowMode: boolean
  readonly detailedMetric: boolean
  readonly quotaMode: boolean
  readonly valueToMetric: boolean
  readonly shareThreshold: boolean
  readonly metadata?: JsonObject
  readonly descriptors: readonly RateLimitRule[]
}

export interface RateLimitPolicy {
  /** Lower case: second, minute, hour, day, week, month, year; empty when unlimited. */
  readonly unit: string
  /** 0 blocks every request. undefined only when unlimited. */
  readonly requestsPerUnit: number | undefined
  readonly unlimited: boolean
  readonly name: string
  readonly replaces: readonly string[]
}

export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [name: string]: Json
}

/** A service that shall run, in so many replicas of one kind. */
export interface Workload {
  /** Unique: `ratelimit`. */
  readonly name: string
  /** Which of our services it is. */
  readonly service: 'ratelimit'
  readonly replicas: number
  /** The service's settings, the same for each replica; secrets are not among them. */
  readonly env: Readonly<Record<string, string>>
  /** The ports that callers use, shared by the replicas. */
  readonly ports: readonly ServicePort[]
  /** How long a replica may take from SIGTERM to its end. */
  readonly stopGraceMs: number
}

export interface ServicePort {
  /** `grpc`, `http`. */
  readonly name: string
  readonly port: number
}
