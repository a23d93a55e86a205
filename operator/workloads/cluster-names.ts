import { createHash } from 'node:crypto'

/** The names of the objects in a cluster. Each starts with the name of the installation. */

/** The maximum length of labels and of names of Services, from RFC 1123. */
const maxNameLength = 63
const hashLength = 8

/**
 * Returns the name of an object: `tollway-ratelimit`; with a suffix `tollway-ratelimit-http`. A name of more
 * than 63 characters is truncated and ends with a hash of the whole name, so that different names stay
 * different.
 */
export function objectName(installation: string, workload: string, suffix?: string): string {
  const whole = [installation, workload, ...(suffix === undefined ? [] : [suffix])].join('-')
  if (whole.length <= maxNameLength) return whole
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, hashLength)
  const kept = whole.slice(0, maxNameLength - hashLength - 1).replace(/[^a-z0-9]+$/, '')
  return `${kept}-${hash}`
}

/**
 * Returns the name of the operator's Deployment, of its Service, and of the ConfigMap with its configuration.
 * That ConfigMap owns every object that the operator creates.
 */
export function operatorName(installation: string): string {
  return `${installation}-operator`
}

/** Returns the name of the Lease. Only the operator that holds it writes. */
export function leaseName(installation: string): string {
  return `${installation}-operator`
}

/**
 * Returns how an operator is named in the Lease: by its pod, its address, and `life`, an id of the process in
 * hex.
 */
export function leaseIdentity({ name, ip }: { name: string; ip: string }, life: string): string {
  return `${name}_${ip}_${life}`
}

/** Returns the IP address in a text that `leaseIdentity` made; undefined for any other text. */
export function addressOfHolder(identity: string): string | undefined {
  return /^[^_]+_([0-9a-fA-F.:]+)_[0-9a-f]+$/.exec(identity)?.[1]
}

/** Returns the DNS name by which pods reach the feed, and which the feed's certificate has. */
export function feedHost(installation: string, namespace: string): string {
  return `${operatorName(installation)}.${namespace}.svc`
}

/** Returns all DNS names of the operators' Service, starting with `feedHost`. */
export function operatorHosts(installation: string, namespace: string): readonly string[] {
  const name = operatorName(installation)
  const host = feedHost(installation, namespace)
  return [host, `${host}.cluster.local`, `${name}.${namespace}`, name]
}

/** Returns the DNS name in the certificate of the pods. It proves that a pod belongs to the installation. */
export function podIdentity(installation: string, namespace: string): string {
  return `pods.${installation}.${namespace}.svc`
}

export function authoritySecret(installation: string): string {
  return `${installation}-ca`
}

export function feedServerSecret(installation: string): string {
  return `${installation}-feed-server`
}

export function feedClientSecret(installation: string): string {
  return `${installation}-feed-client`
}

/** Returns the DNS name of the payments service, for its API, the payment page and the provisioning port. */
export function paymentsHost(installation: string, namespace: string): string {
  return `${objectName(installation, 'payments', 'http')}.${namespace}.svc`
}

export function rateLimitHost(installation: string, namespace: string): string {
  return `${objectName(installation, 'ratelimit')}.${namespace}.svc`
}

export function paymentsSecret(installation: string): string {
  return `${installation}-payments`
}
