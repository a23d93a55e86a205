import { animationStreamRouteKind as definition } from '@tollway/crds/animation-stream-route.ts'
import type { OpenedStreamRoute, StreamRoute } from '../ir.ts'
import type { TokenPlace, TokenSecrets, Tokens } from '../sources/token-secrets.ts'
import { translateAnimationStreamRoute } from '../translate/translate-animation-stream-route.ts'
import { encodeStreamRoute, showStreamRoute, streamRouteTypeUrl } from '../xds/encode-stream-route.ts'
import type { RouteLoad } from '../xds/loads/stream-loads.ts'
import { openStreamMatchClaims } from './claim-stream-matches.ts'
import type { Completed, FedKind, KindColumns, Lack } from './fed-kind.ts'
import { findOpenOverlaps } from './find-open-overlaps.ts'
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
  const completed = new WeakMap<StreamRoute, KnownTokens & Completed<OpenedStreamRoute>>()
  return {
    definition,
    workload: 'broker',
    typeUrl: streamRouteTypeUrl,
    ...animationStreamRouteColumns,
    translate: translateAnimationStreamRoute,
    isContent: isStreamRoute,
    subjectOf: (content, spec) => content?.match.streamIdPrefix ?? prefixOf(spec),
    openClaims: openStreamMatchClaims,
    doubtsOf: findOpenOverlaps,
    prepare: routes => secrets.follow(routes.flatMap(route => Object.values(placesOf(route)))),
    complete(route, createdMs) {
      const places = placesOf(route)
      const tokensOf = (place: TokenPlace | undefined) => place && secrets.tokens(place)
      const found = { both: tokensOf(places.both), push: tokensOf(places.push), pull: tokensOf(places.pull) }
      const known = completed.get(route)
      if (known?.fed.createdMs === createdMs && isSameTokens(known.found, found)) return known
      const tokens = {
        push: [...hashesOf(found.both), ...hashesOf(found.push)],
        pull: [...hashesOf(found.both), ...hashesOf(found.pull)],
      }
      const made = { found, fed: { route, createdMs, tokens }, lacking: lackOfAny(places, found) }
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
/**
 * A hash that no token has, as far as anybody knows. A right without hashes needs no token, and a route that is not
 * fed leaves its streams to a route that may be: neither may come of a Secret that is not there.
 */
const closedToAll: readonly Uint8Array[] = [new Uint8Array(32)]

const grants = ['both', 'push', 'pull'] as const
type Grant = (typeof grants)[number]

interface KnownTokens {
  /** What is known of each Secret that the route names. */
  readonly found: Readonly<Record<Grant, Tokens | undefined>>
}

function isSameTokens(a: KnownTokens['found'], b: KnownTokens['found']): boolean {
  return grants.every(grant => a[grant] === b[grant])
}

function placesOf(route: StreamRoute): Readonly<Partial<Record<Grant, TokenPlace>>> {
  const [namespace = ''] = route.name.split('/')
  const { tokenSecret: both, pushTokenSecret: push, pullTokenSecret: pull } = route
  return Object.fromEntries(
    Object.entries({ both, push, pull }).flatMap(([grant, entry]) =>
      entry === undefined ? [] : [[grant, { namespace, secret: entry.name, key: entry.key }]],
    ),
  )
}

function hashesOf(tokens: Tokens | undefined): readonly Uint8Array[] {
  if (tokens === undefined) return []
  return 'hashes' in tokens ? tokens.hashes : closedToAll
}

/** What is missing first, of the Secrets that the route names. */
function lackOfAny(places: ReturnType<typeof placesOf>, found: KnownTokens['found']): Lack | undefined {
  for (const grant of grants) {
    const [place, tokens] = [places[grant], found[grant]]
    const lack = place && tokens && lackOf(place, tokens, closedBy[grant])
    if (lack !== undefined) return lack
  }
  return undefined
}

/** What a Secret that is not there closes. */
const closedBy = {
  both: 'the route is closed to everybody until then',
  push: 'the route takes no pushes for its tokens until then',
  pull: 'the route takes no pulls for its tokens until then',
} as const satisfies Record<Grant, string>

function lackOf({ namespace, secret, key }: TokenPlace, tokens: Tokens, closed: string): Lack | undefined {
  const name = `the Secret ${namespace}/${secret}`
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
