/** Names of what the operator makes and of what it finds itself by, all beginning with the installation's. */

/** The Deployment of the operator, which owns all that the operator makes, and its Service. */
export function operatorName(installation: string): string {
  return `${installation}-operator`
}

/** The Lease by which one of the operators is the one that writes. */
export function leaseName(installation: string): string {
  return `${installation}-operator`
}

/** The name by which pods find the feed; its certificate has it. */
export function feedHost(installation: string, namespace: string): string {
  return `${operatorName(installation)}.${namespace}.svc`
}

/** The certificate by which pods show that they are of the fleet. */
export function feedClientSecret(installation: string): string {
  return `${installation}-feed-client`
}
