import type { StreamRoute } from '../../translated-types.ts'
import type { Claimant, Claims } from '../claims.ts'

/**
 * The owners of matches.
 *
 * - A stream id prefix belongs to the namespace of the oldest route that names it, and so does every longer
 *   prefix. A route of another namespace may not have the same prefix, a prefix that begins with it, or a
 *   prefix with which it begins, because it would take streams of the owner. Within a namespace prefixes may
 *   overlap.
 * - The empty prefix belongs to no namespace. A route with it applies only to streams that no route with a
 *   prefix matches, for any values of its other fields.
 * - A whole match belongs to the oldest route that has it, of any namespace, because the younger of two equal
 *   routes would never apply.
 */
export function openStreamMatchClaims(): Claims<Pick<StreamRoute, 'match'>> {
  const byMatch = new Map<string, string>()
  /** The first route with exactly this prefix. */
  const byPrefix = new Map<string, Owner>()
  /**
   * The first route of each namespace that has a longer prefix, by each text with which that prefix begins.
   */
  const byStart = new Map<string, Map<string, Owner>>()

  /** Returns a route of another namespace whose prefix overlaps this one. */
  function strangerWith(prefix: string, namespace: string): Owner | undefined {
    const isStranger = (owner: Owner) => owner.namespace !== namespace
    const above = startsOf(prefix).flatMap(start => byPrefix.get(start) ?? [])
    return above.find(isStranger) ?? byStart.get(prefix)?.values().find(isStranger)
  }

  return {
    denialOf({ match }, { namespace }) {
      const { streamIdPrefix: prefix } = match
      const stranger = prefix === '' ? undefined : strangerWith(prefix, namespace)
      if (stranger !== undefined) {
        const overlap = stranger.prefix === prefix ? '' : ` overlaps "${stranger.prefix}", which`
        const whose = `belongs to the namespace ${stranger.namespace} by ${stranger.name}, which is older`
        const message = `"${prefix}"${overlap} ${whose}; name another`
        return { reason: 'PrefixConflict', path: 'spec.match.streamIdPrefix', message, owner: stranger.name }
      }
      const owner = byMatch.get(keyOf(match))
      if (owner === undefined) return undefined
      const message = `${owner}, which is older, matches exactly the same; match something else`
      return { reason: 'MatchConflict', path: 'spec.match', message, owner }
    },
    grant({ match }, claimant) {
      const { streamIdPrefix: prefix } = match
      byMatch.set(keyOf(match), claimant.name)
      if (prefix === '') return
      const owner = { ...claimant, prefix }
      if (!byPrefix.has(prefix)) byPrefix.set(prefix, owner)
      for (const start of startsOf(prefix).slice(0, -1)) {
        const namespaces = byStart.get(start) ?? new Map<string, Owner>()
        if (!namespaces.has(claimant.namespace)) namespaces.set(claimant.namespace, owner)
        byStart.set(start, namespaces)
      }
    },
    keyOf: ({ match }) => keyOf(match),
  }
}

interface Owner extends Claimant {
  readonly prefix: string
}

/** Returns `a`, `ab` and `abc` for `abc`. */
function startsOf(prefix: string): readonly string[] {
  return Array.from({ length: prefix.length }, (_, index) => prefix.slice(0, index + 1))
}

function keyOf({ sourceServiceId, streamIdPrefix, targetObjectId }: StreamRoute['match']): string {
  return JSON.stringify([sourceServiceId, streamIdPrefix, targetObjectId])
}
