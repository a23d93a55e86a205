import { animationStreamRouteKind as definition } from '@tollway/crds/animation-stream-route.ts'
import type { OpenedStreamRoute, StreamRoute } from '../ir.ts'
import type { TokenPlace, TokenSecrets, Tokens } from '../sources/token-secrets.ts'
import { translateAnimationStreamRoute } from '../translate/translate-animation-stream-route.ts'
import { encodeStreamRoute, showStreamRoute, streamRouteTypeUrl } from '../xds/encode-stream-route.ts'
import type { RouteLoad } from '../xds/loads/stream-loads.ts'
import { openStreamMatchClaims } from './claim-stream-matches.ts'
import type { Completed, FedKind, KindColumns, Lack } from './fed-kind.ts'
import { isStreamRoute } from './is-stream-route.ts'

export const animationStreamRouteColumns: KindColumns = {
  subject: 'PREFIX',
  counts: [
    { field: 'activeStreams', heading: 'STREAMS', isLoad: true },
    { field: 'consumers', heading: 'CONSUMERS', isLoad: true },
  ],
}

export interface StreamRouteSurroundings {
  readonly secrets: TokenSecrets
  /** What these processes carry of a route. */
  readonly loadOf: (route: string, uids: readonly string[]) => RouteLoad
}

export function animationStreamRoutes({
  secrets,
  loadOf,
}: StreamRouteSurroundings): FedKind<StreamRoute, OpenedStreamRoute> {
  const completed = new WeakMap<StreamRoute, { readonly tokens: Tokens } & Completed<OpenedStreamRoute>>()
  return {
    definition,
    workload: 'broker',
    typeUrl: streamRouteTypeUrl,
    ...animationStreamRouteColumns,
    translate: translateAnimationStreamRoute,
    isContent: isStreamRoute,
    subjectOf: (content, spec) => content?.match.streamIdPrefix ?? prefixOf(spec),
    openClaims: openStreamMatchClaims,
    prepare: routes => secrets.follow(routes.flatMap(route => placeOf(route) ?? [])),
    complete(route, createdMs) {
      const place = placeOf(route)
      const tokens = place === undefined ? openToAll : secrets.tokens(place)
      const known = completed.get(route)
      if (known?.tokens === tokens && known.fed.createdMs === createdMs) return known
      const made = {
        tokens,
        fed: { route, createdMs, tokenHashes: 'hashes' in tokens ? tokens.hashes : closedToAll },
        lacking: place && lackOf(place, tokens),
      }
      completed.set(route, made)
      return made
    },
    encode: encodeStreamRoute,
    show: showStreamRoute,
    countsOf(route, uids) {
      const { activeStreams, consumers } = route ? loadOf(route.name, uids) : noLoad
      return { activeStreams, consumers }
    },
  }
}

const noLoad: RouteLoad = { activeStreams: 0, consumers: 0 }
const openToAll: Tokens = { hashes: [] }
/**
 * A hash that no token has, as far as anybody knows. A route without hashes is open to all, and one that is not
 * fed leaves its streams to a route that may be: neither may come of a Secret that is not there.
 */
const closedToAll: readonly Uint8Array[] = [new Uint8Array(32)]

function placeOf({ name, tokenSecret }: StreamRoute): TokenPlace | undefined {
  const [namespace = ''] = name.split('/')
  return tokenSecret && { namespace, secret: tokenSecret.name, key: tokenSecret.key }
}

function lackOf({ namespace, secret, key }: TokenPlace, tokens: Tokens): Lack | undefined {
  const name = `the Secret ${namespace}/${secret}`
  const closed = 'the route is closed to everybody until then'
  if ('forbidden' in tokens && tokens.forbidden !== undefined) {
    const effect = 'hashes' in tokens ? 'the tokens that were read before stay in force' : closed
    const message = `the operator may not read ${name}; ${effect}. ${tokens.forbidden}`
    return { reason: 'SecretForbidden', message }
  }
  if ('hashes' in tokens) return undefined
  if ('missing' in tokens) return { reason: 'SecretMissing', message: `${name} ${tokens.missing}; ${closed}` }
  const message = `${name} has not been read yet for its entry ${key}; ${closed}`
  return { reason: 'SecretUnknown', message }
}

const maxShownCharacters = 100

function prefixOf(spec: unknown): string {
  const match = (spec as { match?: { streamIdPrefix?: unknown } | null } | null | undefined)?.match
  const prefix = match?.streamIdPrefix
  return typeof prefix === 'string' ? prefix.slice(0, maxShownCharacters) : ''
}
