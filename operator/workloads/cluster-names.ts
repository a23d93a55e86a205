import { createHash } from 'node:crypto'

/** The names of the objects in a cluster. All begin with the name of the installation. */

/** The maximum length of labels and of the names of Services, by RFC 1123. */
const maxNameLength = 63
const hashLength = 8

/**
 * Returns `tollway-ratelimit`, and `tollway-ratelimit-http` with a suffix. A name of more than 63 characters
 * is truncated and ends with a hash of the whole name, so that different names stay different.
 */
export function objectName(installation: string, workload: string, suffix?: string): string {
  const whole = [installation, workload, ...(suffix === undefined ? [] : [suffix])].join('-')
  if (whole.length <= maxNameLength) return whole
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, hashLength)
  const kept = whole.slice(0, maxNameLength - hashLength - 1).replace(/[^a-z0-9]+$/, '')
  return `${kept}-${hash}`
}

/**
 * Returns the name of the operator's Deployment, of its Service, and of the ConfigMap with its configuration,
 * which owns every object that the operator creates.
 */
export function operatorName(installation: string): string {
  return `${installation}-operator`
}

/** Returns the name of the Lease, whose holder writes. */
export function leaseName(installation: string): string {
  return `${installation}-operator`
}

/** Returns the identity of an operator in the Lease: its pod, its address, and an id of the process. */
export function leaseIdentity({ name, ip }: { name: string; ip: string }, life: string): string {
  return `${name}_${ip}_${life}`
}

/** Returns the address in the identity of an operator; undefined for any other identity. */
export function addressOfHolder(identity: string): string | undefined {
  return /^[^_]+_([0-9a-fA-F.:]+)_[0-9a-f]+$/.exec(identity)?.[1]
}

/** Returns the DNS name of the feed, for pods and for its certificate. */
export function feedHost(installation: string, namespace: string): string {
  return `${operatorName(installation)}.${namespace}.svc`
}

/** Returns all DNS names of the operators' Service, that of `feedHost` first. */
export function operatorHosts(installation: string, namespace: string): readonly string[] {
  const name = operatorName(installation)
  const host = feedHost(installation, namespace)
  return [host, `${host}.cluster.local`, `${name}.${namespace}`, name]
}

/** Returns the DNS name in the certificate of the pods. It proves that a pod belongs to the installation. */
export function podIdentity(installation: string, namespace: string): string {
  return `pods.${installation}.${namespace}.svc`
}

/** Returns the name of the Secret with the certificates and the key of the authority. */
export function authoritySecret(installation: string): string {
  return `${installation}-ca`
}

/** Returns the name of the Secret with the certificate of the operators. */
export function feedServerSecret(installation: string): string {
  return `${installation}-feed-server`
}

/** Returns the name of the Secret with the certificate of the pods. */
export function feedClientSecret(installation: string): string {
  return `${installation}-feed-client`
}

/** Returns the DNS name of the payments service: of the API, the payment page and the operator's port. */
export function paymentsHost(installation: string, namespace: string): string {
  return `${objectName(installation, 'payments', 'http')}.${namespace}.svc`
}

/** Returns the DNS name of the rate limit service's port for gRPC. */
export function rateLimitHost(installation: string, namespace: string): string {
  return `${objectName(installation, 'ratelimit')}.${namespace}.svc`
}

/** Returns the name of the Secret that the processes of the payments service share. */
export function paymentsSecret(installation: string): string {
  return `${installation}-payments`
}
