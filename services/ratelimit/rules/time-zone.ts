const hourSeconds = 3600
export const daySeconds = 86_400

/** The offset of a time zone from UTC is always less than this. */
const maxOffsetSeconds = 16 * hourSeconds

/**
 * The step in which transitions are searched: no zone changes its offset and changes it back in this time.
 */
const stepSeconds = 4 * hourSeconds

/** Outside these bounds, the local time is taken to be UTC. */
const firstLocalSecond = Date.UTC(1000, 0) / 1000
const lastLocalSecond = Date.UTC(9999, 0) / 1000

/**
 * At most this many time zones are kept, because creating the formatter of one takes about 0.2 ms. The oldest
 * is dropped for a new one.
 */
const maxCachedZones = 1000

/** A time zone of the IANA database. Times are whole seconds since the epoch, in UTC. */
interface TimeZone {
  /** The reading of a local clock, in seconds since 1970-01-01 00:00 of that clock. */
  localSecondsAt(utcSeconds: number): number
  /**
   * Returns the first instant whose local date is this day or a later one. If a date begins twice, the first
   * time counts. A date without midnight begins at the first instant that exists on it. A date that the zone
   * skips has the same first instant as the next one.
   *
   * @param day days since 1970-01-01
   */
  findFirstInstant(day: number): number
}

/**
 * Whether this process knows the time zone: a name of the IANA database, such as `Europe/Copenhagen`. An
 * offset (`+01:00`) is not a name.
 */
export function isTimeZone(name: string): boolean {
  return /^[A-Za-z]/.test(name) && createFormat(name) !== undefined
}

/** The version of the IANA database in this process: `2026c`. */
export const timeZoneDataVersion = process.versions['tz'] ?? 'unknown'

const zones = new Map<string, TimeZone>()

/** @throws Error for an unknown time zone; see `isTimeZone` */
export function openTimeZone(name: string): TimeZone {
  const known = zones.get(name)
  if (known !== undefined) return known
  const format = isTimeZone(name) ? createFormat(name) : undefined
  if (format === undefined) throw new Error(`time zone ${JSON.stringify(name)} is unknown`)
  const zone = createTimeZone(format)
  for (const oldest of zones.keys()) {
    if (zones.size < maxCachedZones) break
    zones.delete(oldest)
  }
  zones.set(name, zone)
  return zone
}

function createFormat(timeZone: string): Intl.DateTimeFormat | undefined {
  const numeric = 'numeric'
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: numeric,
      month: numeric,
      day: numeric,
      hour: numeric,
      minute: numeric,
      second: numeric,
    })
  } catch {
    return undefined
  }
}

function createTimeZone(format: Intl.DateTimeFormat): TimeZone {
  function localSecondsAt(utcSeconds: number): number {
    if (utcSeconds < firstLocalSecond || utcSeconds > lastLocalSecond) return utcSeconds
    const [month = 1, day = 1, year = 0, hour, minute, second] = (
      format.format(utcSeconds * 1000).match(/\d+/g) ?? []
    ).map(Number)
    return Date.UTC(year, month - 1, day, hour, minute, second) / 1000
  }

  const offsetAt = (utcSeconds: number) => localSecondsAt(utcSeconds) - utcSeconds

  /**
   * Returns the first second after `from` whose offset is not `offset`. The offset at `to` must differ from
   * `offset`.
   */
  function findTransition(from: number, to: number, offset: number): number {
    let before = from
    let after = to
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (offsetAt(middle) === offset) before = middle
      else after = middle
    }
    return after
  }

  /**
   * Goes through the spans of constant offset around midnight, to the first one in which the local clock
   * reaches midnight or is already past it.
   */
  function findFirstInstant(day: number): number {
    const midnight = day * daySeconds
    let at = midnight - maxOffsetSeconds
    let offset = offsetAt(at)
    while (true) {
      const next = at + stepSeconds
      const nextOffset = offsetAt(next)
      const end = nextOffset === offset ? next : findTransition(at, next, offset)
      const reached = Math.max(at, midnight - offset)
      if (reached < end) return reached
      at = end
      offset = end === next ? nextOffset : offsetAt(end)
    }
  }

  return { localSecondsAt, findFirstInstant }
}
