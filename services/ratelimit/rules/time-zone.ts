const hourSeconds = 3600
export const daySeconds = 86_400

/** The offset of a time zone from UTC is always less than this. */
const maxOffsetSeconds = 16 * hourSeconds

/** No zone has two transitions within this time that cancel each other. */
const stepSeconds = 4 * hourSeconds

/** Years beyond these are those of UTC. */
const firstLocalSecond = Date.UTC(1000, 0) / 1000
const lastLocalSecond = Date.UTC(9999, 0) / 1000

/** The most time zones whose formatters are kept. A formatter takes about 0.2 ms to create. */
const maxCachedZones = 1000

/** A time zone of the IANA database. Times are whole seconds since the epoch, in UTC. */
interface TimeZone {
  /** The reading of a local clock, in seconds since 1970-01-01 00:00 of that clock. */
  localSecondsAt(utcSeconds: number): number
  /**
   * The first instant whose local date is this day or a later one. A date that begins twice begins the first
   * time; a date without midnight begins at the first instant that it has; a date that the zone skips has the
   * same first instant as the next one.
   *
   * @param day days since 1970-01-01
   */
  findFirstInstant(day: number): number
}

/**
 * Whether this process knows the time zone: a name of the IANA database, such as `Europe/Copenhagen`. Offsets
 * (`+01:00`) are not names.
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

  /** The first second after `from` at which the offset differs, if it differs at `to`. */
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

  /** Visits the spans of constant offset around midnight, until one of them reaches it. */
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
