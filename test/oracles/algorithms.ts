/**
 * Exact oracles of the algorithms in BigInt. They keep tokens as fractions of a window, and a count for each
 * window that ever was.
 */
export interface Oracle {
  /**
   * Returns whether the hits are admitted. Adds them if `adds`, also rejected ones if `countRejected`. Negative
   * hits are given back.
   */
  call(call: OracleCall, adds: boolean): boolean
  clone(): Oracle
}

export interface OracleCall {
  readonly now: number
  readonly hits: number
  readonly limit: number
  readonly burst: number
  readonly countRejected: boolean
}

/** The most missing tokens, in their units. */
const mostMissing = 2n ** 52n
/** The most hits of a window. */
const mostHits = 2n ** 53n - 1n

/** Returns the hits that are added. Rejected ones that have no room are lost. */
function added({ hits, countRejected }: OracleCall, admitted: boolean, room: bigint): bigint {
  if (admitted) return BigInt(hits)
  const counted = BigInt(hits) < room ? BigInt(hits) : room
  return countRejected ? counted : 0n
}

/** Tokens in units of 1 / window, of a bucket with room for `burst`. The missing ones are kept. */
export function tokenBucket(window: number, before = { missing: 0n, at: Number.NEGATIVE_INFINITY }): Oracle {
  let { missing, at } = before
  return {
    clone: () => tokenBucket(window, { missing, at }),
    call(call, adds) {
      const { now, hits, limit, burst } = call
      if (adds && now < at) at = now
      const since = now > at && missing > 0n ? BigInt(now - at) : 0n
      const drained = missing - since * BigInt(limit)
      const left = drained > 0n ? drained : 0n
      if (hits < 0) {
        const owed = left + BigInt(hits) * BigInt(window)
        if (left > 0n) [missing, at] = [owed > 0n ? owed : 0n, now]
        return true
      }
      if (limit === 0) return false
      const admitted = left + BigInt(hits) * BigInt(window) <= BigInt(burst) * BigInt(window)
      const more = added(call, admitted, (mostMissing - left) / BigInt(window))
      if (adds && more > 0n) [missing, at] = [left + more * BigInt(window), now]
      return admitted
    },
  }
}

/**
 * The holds of counted calls, each with its end and what is left of it. After a step back of the clock they
 * last as long as at the last change.
 */
export function concurrency(
  lease: number,
  before = { holds: [] as readonly { until: number; hits: bigint }[], at: Number.NEGATIVE_INFINITY },
): Oracle {
  let { holds, at } = before
  return {
    clone: () => concurrency(lease, { holds, at }),
    call(call, adds) {
      const { now, hits, limit } = call
      const back = Math.max(0, at - now)
      let open = holds.map(hold => ({ ...hold, until: hold.until - back })).filter(({ until }) => until > now)
      const held = open.reduce((sum, hold) => sum + hold.hits, 0n)
      const admitted = hits < 0 || held + BigInt(hits) <= BigInt(limit)
      const room = 2n * BigInt(limit) - held
      const more = hits < 0 ? 0n : added(call, admitted, room > 0n ? room : 0n)
      const isChanged = back > 0 || open.length < holds.length || admitted || more > 0n
      if (hits < 0) {
        let left = BigInt(-hits)
        open = open.map(({ until, hits }) => {
          const ended = hits < left ? hits : left
          left -= ended
          return { until, hits: hits - ended }
        })
      } else if (more > 0n) open.push({ until: now + lease, hits: more })
      open = open.filter(hold => hold.hits > 0n).sort((a, b) => a.until - b.until)
      if (adds && isChanged) [holds, at] = [open, now]
      return admitted
    },
  }
}

/** The counted hits of each window, by the window's number. */
export function slidingWindow(
  window: number,
  before = { counts: new Map<number, bigint>(), last: 0 },
): Oracle {
  let { counts, last } = before
  return {
    clone: () => slidingWindow(window, { counts: new Map(counts), last }),
    call(call, adds) {
      const { now, limit } = call
      const place = Math.floor(now / window)
      const shift = Math.max(0, last - place)
      const count = (number: number) => counts.get(number + shift) ?? 0n
      const weight = BigInt((place + 1) * window - now)
      const given = BigInt(Math.min(-call.hits, Number(count(place))))
      const hits = call.hits < 0 ? 0 : call.hits
      const used = count(place - 1) * weight + (count(place) + BigInt(hits)) * BigInt(window)
      const fits = hits <= limit && used <= BigInt(limit) * BigInt(window)
      const admitted = call.hits < 0 || fits
      const more = call.hits < 0 ? -given : added(call, admitted, mostHits - count(place))
      if (adds && (more !== 0n || shift > 0)) {
        const current = count(place) + more
        counts = new Map([
          [place - 1, count(place - 1)],
          [place, current],
        ])
        last = place
      }
      return admitted
    },
  }
}
