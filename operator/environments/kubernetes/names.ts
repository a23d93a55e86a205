import { ownSecretNames } from './api/permissions.ts'
import { objectName } from './infrastructure/objects/place.ts'

/** Names of what the operator makes and of what it finds itself by, all beginning with the installation's. */

/**
 * The operator's Deployment, its Service, and the ConfigMap with its configuration, which owns every object
 * that the operator creates.
 */
export function operatorName(installation: string): string {
  return `${installation}-operator`
}

/** The Lease by which one of the operators is the one that writes. */
export function leaseName(installation: string): string {
  return `${installation}-operator`
}

/** Returns the identity of an operator in the Lease: its pod, its address, and an id of the process. */
export function leaseIdentity({ name, ip }: { name: string; ip: string }, life: string): string {
  return `${name}_${ip}_${life}`
}

/** The address in it; undefined for an identity of another making. */
export function addressOfHolder(identity: string): string | undefined {
  return /^[^_]+_([0-9a-fA-F.:]+)_[0-9a-f]+$/.exec(identity)?.[1]
}

/** The name by which pods find the feed; its certificate has it. */
export function feedHost(installation: string, namespace: string): string {
  return `${operatorName(installation)}.${namespace}.svc`
}

/** All names of the operators' Service, that of `feedHost` first. */
export function operatorHosts(installation: string, namespace: string): readonly string[] {
  const name = operatorName(installation)
  const host = feedHost(installation, namespace)
  return [host, `${host}.cluster.local`, `${name}.${namespace}`, name]
}

/** What the certificate of the pods is for: it proves that one is of the fleet, and no more. */
export function podIdentity(installation: string, namespace: string): string {
  return `pods.${installation}.${namespace}.svc`
}

/** The authority's certificates and its key. */
export function authoritySecret(installation: string): string {
  return `${installation}-ca`
}

/** The certificate of the operators. */
export function feedServerSecret(installation: string): string {
  return `${installation}-feed-server`
}

/** The certificate by which pods show that they are of the fleet. */
export function feedClientSecret(installation: string): string {
  return `${installation}-feed-client`
}

/** Every Secret that the operator creates for itself and its services. */
export function operatorSecrets(installation: string): readonly string[] {
  return ownSecretNames.map(name => `${installation}-${name}`)
}

/** The name by which callers find the API and the payment page, and the operator its own port there. */
export function paymentsHost(installation: string, namespace: string): string {
  return `${objectName({ name: installation }, 'payments', 'http')}.${namespace}.svc`
}

/** The name by which callers find the rate limit service's port of gRPC. */
export function rateLimitHost(installation: string, namespace: string): string {
  return `${objectName({ name: installation }, 'ratelimit')}.${namespace}.svc`
}

/** What the processes of the payments service share. */
export function paymentsSecret(installation: string): string {
  return `${installation}-payments`
}
