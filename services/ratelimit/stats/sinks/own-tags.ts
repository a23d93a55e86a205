/** A statistic's name for sinks, and its tags in addition to the extra tags. */
export interface OwnTags {
  readonly name: string
  readonly tags: readonly (readonly [name: string, value: string])[]
}

/** Only these names have tags: all others contain, or may contain, values from callers. */
const tagged = /^(ratelimit\.memcache\.\w+)\.__(\w+)=(\w+)$/

/**
 * Splits a name and its tag, in the form in which the reference keeps statistics with tags:
 * `ratelimit.memcache.add.__code=error`.
 */
export function splitOwnTags(statName: string): OwnTags {
  const [, name, tag, value] = tagged.exec(statName) ?? []
  if (name === undefined || tag === undefined || value === undefined) return { name: statName, tags: [] }
  return { name, tags: [[tag, value]] }
}
