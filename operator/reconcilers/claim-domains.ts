/** A resource that wants a domain. */
export interface Claim {
  readonly uid: string
  /** `namespace/name`, for messages. */
  readonly name: string
  readonly namespace: string
  /** Since when the resource is there. */
  readonly firstSeenMs: number
  /**
   * The domains that would do, the best first: that of the present content, then that of the last good one.
   */
  readonly domains: readonly string[]
}

export interface Grant {
  /** undefined when every domain that would do is another's. */
  readonly domain: string | undefined
  /** Why the best domain was not given. */
  readonly refusal: Refusal | undefined
}

export type Refusal =
  /** Another resource has it: its `namespace/name`. */
  | { readonly kind: 'taken'; readonly owner: string }
  /** It is kept for these namespaces. */
  | { readonly kind: 'reserved'; readonly namespaces: readonly string[] }

/** The namespaces for which a domain is kept, by the domain; all others are free. */
export type Reservations = ReadonlyMap<string, readonly string[]>

/**
 * A domain belongs to the oldest resource that names it and may have it; of two equally old ones, to that with
 * the smaller uid.
 */
export function claimDomains(
  claims: readonly Claim[],
  reservations: Reservations = new Map(),
): ReadonlyMap<string, Grant> {
  const oldestFirst = claims.toSorted((a, b) => a.firstSeenMs - b.firstSeenMs || (a.uid < b.uid ? -1 : 1))
  const owners = new Map<string, string>()
  const grants = new Map<string, Grant>()

  function refusalOf(domain: string, namespace: string): Refusal | undefined {
    const namespaces = reservations.get(domain)
    if (namespaces !== undefined && !namespaces.includes(namespace)) return { kind: 'reserved', namespaces }
    const owner = owners.get(domain)
    return owner === undefined ? undefined : { kind: 'taken', owner }
  }

  for (const { uid, name, namespace, domains } of oldestFirst) {
    const refusals = domains.map(domain => refusalOf(domain, namespace))
    const domain = domains.find((_, index) => refusals[index] === undefined)
    if (domain !== undefined) owners.set(domain, name)
    grants.set(uid, { domain, refusal: refusals[0] })
  }
  return grants
}
