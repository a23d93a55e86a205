/** A statistic as sinks tell it: its name, and the tags that it has beside the extra ones of all. */
export interface OwnTags {
  readonly name: string
  readonly tags: readonly (readonly [name: string, value: string])[]
}

/** All others hold, or may hold, what a caller sent, in which nothing is a tag. */
const tagged = /^(ratelimit\.memcache\.\w+)\.__(\w+)=(\w+)$/

/**
 * Takes the tag out of a name that has one, in the form in which the reference keeps statistics with tags:
 * `ratelimit.memcache.add.__code=error`.
 */
export function splitOwnTags(statName: string): OwnTags {
  const [, name, tag, value] = tagged.exec(statName) ?? []
  if (name === undefined || tag === undefined || value === undefined) return { name: statName, tags: [] }
  return { name, tags: [[tag, value]] }
}
