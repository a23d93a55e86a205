/** The destination of statistics. A process has one. */
export interface Sink {
  /**
   * Starts to send the changes since the last flush, and returns at once. It never throws; changes that
   * cannot be sent now are sent with a later flush.
   */
  flush(): void
  /** Flushes once more, and closes. Resolves within a second, whatever the receiver does. */
  stop(): Promise<void>
}

/** The name under which sinks report a statistic, and its own tags; EXTRA_TAGS adds more. */
interface OwnTags {
  readonly name: string
  readonly tags: readonly (readonly [name: string, value: string])[]
}

/** The only names with tags. Other names may contain values from callers, which must not become tags. */
const tagged = /^(ratelimit\.memcache\.\w+)\.__(\w+)=(\w+)$/

/**
 * Splits a name and its tag, which are written as in envoyproxy/ratelimit:
 * `ratelimit.memcache.add.__code=error`. A name without a tag is unchanged.
 */
export function splitOwnTags(statName: string): OwnTags {
  const [, name, tag, value] = tagged.exec(statName) ?? []
  if (name === undefined || tag === undefined || value === undefined) return { name: statName, tags: [] }
  return { name, tags: [[tag, value]] }
}
