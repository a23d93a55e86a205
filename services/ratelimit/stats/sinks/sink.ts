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

/** A statistic's name for sinks, and its tags in addition to the extra tags. */
interface OwnTags {
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
