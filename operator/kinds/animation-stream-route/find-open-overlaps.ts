import type { StreamRoute } from '../../translated-types.ts'
import type { Doubt } from '../kind-adapter.ts'

/** The maximum of routes that a message names. */
const maxNamed = 3
/** The maximum of routes of one prefix that are compared with others. */
const maxCompared = maxNamed + 1

type Right = 'push' | 'pull'

interface Overlaps {
  /** The other routes, by the right for which exactly one of the two needs a token. */
  readonly push: Set<string>
  readonly pull: Set<string>
}

/**
 * Finds routes whose stream id prefixes overlap and of which only one needs a token, by their names. The
 * tokens of a route protect each stream with its prefix, so that a route without tokens may not be as open as
 * it looks; and a route with tokens does not protect streams that match a shorter prefix only.
 *
 * Routes without a prefix are left out: they are for streams that no prefix matches.
 */
export function findOpenOverlaps(routes: readonly StreamRoute[]): ReadonlyMap<string, Doubt> {
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
          note(one, other, right)
          note(other, one, right)
        }
      }
    }
  }

  function note({ name }: StreamRoute, other: StreamRoute, right: Right): void {
    const overlaps = found.get(name) ?? { push: new Set(), pull: new Set() }
    found.set(name, overlaps)
    overlaps[right].add(other.name)
  }

  const doubts = routes.flatMap(route => {
    const overlaps = found.get(route.name)
    return overlaps === undefined ? [] : [[route.name, doubtOf(route, overlaps)] as const]
  })
  return new Map(doubts)
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

function doubtOf(route: StreamRoute, overlaps: Overlaps): Doubt {
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
