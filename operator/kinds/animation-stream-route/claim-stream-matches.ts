import type { StreamRoute } from '../../model.ts'
import { type Claimant, type Claims, denyReserved, type ReservedClaim } from '../claims.ts'
import type { Advisory } from '../kind-adapter.ts'

/**
 * Decides which routes may have a match.
 *
 * - A stream id prefix belongs to the namespace of the oldest route that has it. A route of another namespace
 *   may have neither this prefix, nor a longer one that starts with it, nor a shorter one with which it
 *   starts, because it would take streams of the owner. Prefixes of one namespace may overlap.
 * - The empty prefix belongs to no namespace. A route with the empty prefix gets only streams that match no
 *   route with a prefix, whatever its other fields are.
 * - A whole match belongs to the oldest route that has it, in all namespaces, because a second route with the
 *   same match would never get a stream.
 */
export function openStreamMatchClaims(): Claims<Pick<StreamRoute, 'match'>> {
  const byMatch = new Map<string, string>()
  const prefixes = openPrefixes<Owner>()
  const keptMatches = new Map<string, ReservedClaim>()
  const keptPrefixes = openPrefixes<Owner & ReservedClaim>()

  function keptFor({ match }: Pick<StreamRoute, 'match'>, namespace: string) {
    const { streamIdPrefix: prefix } = match
    const stranger = keptPrefixes.findForeignOverlap(prefix, namespace)
    if (stranger !== undefined) {
      const overlap = stranger.prefix === prefix ? '' : ` overlaps "${stranger.prefix}", which`
      return denyReserved('spec.match.streamIdPrefix', `"${prefix}"${overlap}`, stranger)
    }
    const keeper = keptMatches.get(toMatchKey(match))
    if (keeper === undefined || keeper.namespace === namespace) return undefined
    return denyReserved('spec.match', 'this match', keeper)
  }

  return {
    findDenial({ match }, { namespace }) {
      const { streamIdPrefix: prefix } = match
      const stranger = prefixes.findForeignOverlap(prefix, namespace)
      if (stranger !== undefined) {
        const overlap = stranger.prefix === prefix ? '' : ` overlaps "${stranger.prefix}", which`
        const whose = `belongs to the namespace ${stranger.namespace} by ${stranger.name}, which is older`
        const message = `"${prefix}"${overlap} ${whose}; name another`
        return { reason: 'PrefixConflict', path: 'spec.match.streamIdPrefix', message, owner: stranger.name }
      }
      const owner = byMatch.get(toMatchKey(match))
      if (owner === undefined) return keptFor({ match }, namespace)
      const message = `${owner}, which is older, matches exactly the same; match something else`
      return { reason: 'MatchConflict', path: 'spec.match', message, owner }
    },
    grant({ match }, claimant) {
      const { streamIdPrefix: prefix } = match
      byMatch.set(toMatchKey(match), claimant.name)
      prefixes.add({ ...claimant, prefix })
    },
    reserve({ match }, claimant, until) {
      keptMatches.set(toMatchKey(match), { ...claimant, until })
      keptPrefixes.add({ ...claimant, until, prefix: match.streamIdPrefix })
    },
    toKey: ({ match }) => toMatchKey(match),
  }
}

interface Owner extends Claimant {
  readonly prefix: string
}

/** Routes by their prefixes. Routes with the empty prefix are ignored. */
function openPrefixes<Route extends Owner>() {
  /** The first route with exactly the prefix of the key. */
  const byPrefix = new Map<string, Route>()
  /** For each text, the first route of each namespace whose prefix is longer and starts with the text. */
  const byStart = new Map<string, Map<string, Route>>()
  return {
    /**
     * Returns a route of another namespace whose prefix equals this one, starts with it, or is a start of it.
     */
    findForeignOverlap(prefix: string, namespace: string): Route | undefined {
      if (prefix === '' || byPrefix.size === 0) return undefined
      const isStranger = (owner: Route) => owner.namespace !== namespace
      const above = listPrefixes(prefix).flatMap(start => byPrefix.get(start) ?? [])
      return above.find(isStranger) ?? byStart.get(prefix)?.values().find(isStranger)
    },
    add(route: Route): void {
      const { prefix, namespace } = route
      if (prefix === '') return
      if (!byPrefix.has(prefix)) byPrefix.set(prefix, route)
      for (const start of listPrefixes(prefix).slice(0, -1)) {
        const namespaces = byStart.get(start) ?? new Map<string, Route>()
        if (!namespaces.has(namespace)) namespaces.set(namespace, route)
        byStart.set(start, namespaces)
      }
    },
  }
}

/** Returns all starts of a text: `a`, `ab` and `abc` for `abc`. */
function listPrefixes(prefix: string): readonly string[] {
  return Array.from({ length: prefix.length }, (_, index) => prefix.slice(0, index + 1))
}

function toMatchKey({ sourceServiceId, streamIdPrefix, targetObjectId }: StreamRoute['match']): string {
  return JSON.stringify([sourceServiceId, streamIdPrefix, targetObjectId])
}

/** A message names at most this many routes. */
const maxNamed = 3
/**
 * Of each prefix at most this many routes with a token and as many without are compared, so that large groups
 * stay fast.
 */
const maxCompared = maxNamed + 1

type Right = 'push' | 'pull'

interface Overlaps {
  /**
   * The names of the overlapping routes, by the right for which exactly one route of the pair needs a token.
   */
  readonly push: Set<string>
  readonly pull: Set<string>
}

/**
 * Returns an advisory, by route name, for each pair of routes whose stream id prefixes overlap and of which
 * only one needs a token. A stream with both prefixes needs the token of either route, so the route without
 * tokens is not as open as it looks. A stream with only the shorter prefix needs no token if the route of
 * that prefix has none.
 *
 * Routes without a prefix are not compared: they get only streams that match no prefix.
 */
export function findOpenOverlaps(routes: readonly StreamRoute[]): ReadonlyMap<string, Advisory> {
  const byPrefix = Map.groupBy(
    routes.filter(({ match }) => match.streamIdPrefix !== ''),
    ({ match }) => match.streamIdPrefix,
  )
  const found = new Map<string, Overlaps>()
  for (const [prefix, group] of byPrefix) {
    for (let length = 1; length <= prefix.length; length += 1) {
      const others = byPrefix.get(prefix.slice(0, length)) ?? []
      for (const right of ['push', 'pull'] as const)
        compare(sample(group, right), sample(others, right), right)
    }
  }

  function compare(group: Sample, others: Sample, right: Right): void {
    for (const [open, closed] of [
      [group.open, others.closed],
      [others.open, group.closed],
    ] as const) {
      for (const one of open) {
        for (const other of closed) {
          addOverlap(one, other, right)
          addOverlap(other, one, right)
        }
      }
    }
  }

  function addOverlap({ name }: StreamRoute, other: StreamRoute, right: Right): void {
    const overlaps = found.get(name) ?? { push: new Set(), pull: new Set() }
    found.set(name, overlaps)
    overlaps[right].add(other.name)
  }

  const advisories = routes.flatMap(route => {
    const overlaps = found.get(route.name)
    return overlaps === undefined ? [] : [[route.name, describeOverlaps(route, overlaps)] as const]
  })
  return new Map(advisories)
}

interface Sample {
  readonly open: readonly StreamRoute[]
  readonly closed: readonly StreamRoute[]
}

function sample(routes: readonly StreamRoute[], right: Right): Sample {
  return {
    open: routes.filter(route => !needsToken(route, right)).slice(0, maxCompared),
    closed: routes.filter(route => needsToken(route, right)).slice(0, maxCompared),
  }
}

function needsToken({ tokenSecret, pushTokenSecret, pullTokenSecret }: StreamRoute, right: Right): boolean {
  return (tokenSecret ?? (right === 'push' ? pushTokenSecret : pullTokenSecret)) !== undefined
}

function describeOverlaps(route: StreamRoute, overlaps: Overlaps): Advisory {
  const parts = (['push', 'pull'] as const).flatMap(right => {
    const names = [...overlaps[right]]
    if (names.length === 0) return []
    const shown = names.slice(0, maxNamed).join(', ') + (names.length > maxNamed ? ' and others' : '')
    const need = needsToken(route, right) ? 'a' : 'no'
    return [`${route.name} needs ${need} token to ${right}, unlike ${shown}`]
  })
  const effect = 'streams that both prefixes match need the token'
  return { reason: 'OpenOverlap', message: `overlapping prefixes: ${parts.join('; ')}; ${effect}` }
}
