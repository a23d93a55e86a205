/** A resource that wants a domain. */
export interface Claim {
  readonly uid: string
  /** `namespace/name`, for messages. */
  readonly name: string
  /** Since when the resource is there. */
  readonly firstSeenMs: number
  /**
   * The domains that would do, the best first: that of the present content, then that of the last good one.
   */
  readonly domains: readonly string[]
}

export interface Grant {
  /** undefined when every domain that would do is taken. */
  readonly domain: string | undefined
  /** Whose the best domain is, when another resource has it. */
  readonly owner: string | undefined
}

/**
 * A domain belongs to the oldest resource that names it; of two equally old ones, to that with the smaller
 * uid.
 */
export function claimDomains(claims: readonly Claim[]): ReadonlyMap<string, Grant> {
  const oldestFirst = claims.toSorted((a, b) => a.firstSeenMs - b.firstSeenMs || (a.uid < b.uid ? -1 : 1))
  const owners = new Map<string, string>()
  const grants = new Map<string, Grant>()
  for (const { uid, name, domains } of oldestFirst) {
    const domain = domains.find(wanted => !owners.has(wanted))
    if (domain !== undefined) owners.set(domain, name)
    const best = domains[0]
    const owner = best === domain || best === undefined ? undefined : owners.get(best)
    grants.set(uid, { domain, owner })
  }
  return grants
}
