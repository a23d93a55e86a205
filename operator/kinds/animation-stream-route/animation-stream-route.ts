import { animationStreamRouteKind as definition } from '@tollway/crds/animation-stream-route.ts'
import type { OpenedStreamRoute, StreamRoute } from '../../model.ts'
import type { RouteLoad } from '../../pods/stream-loads.ts'
import type {
  CompletedContent,
  FeedKind,
  KindAdapter,
  KindColumns,
  KindContext,
  UnmetDependency,
} from '../kind-adapter.ts'
import { findOpenOverlaps, openStreamMatchClaims } from './claim-stream-matches.ts'
import type { SecretReference, SigningSecrets, Tokens } from './route-secrets.ts'
import {
  encodeStreamRoute,
  isStreamRoute,
  showStreamRoute,
  streamRouteType,
  translateAnimationStreamRoute,
} from './stream-route.ts'

const animationStreamRouteColumns: KindColumns = {
  subject: 'PREFIX',
  counts: [
    { field: 'activeStreams', heading: 'STREAMS', isLoad: true },
    { field: 'consumers', heading: 'CONSUMERS', isLoad: true },
  ],
}

export const animationStreamRoute: FeedKind<StreamRoute, OpenedStreamRoute> = {
  definition,
  isContent: isStreamRoute,
  columns: animationStreamRouteColumns,
  open: animationStreamRoutes,
}

function animationStreamRoutes({
  routeSecrets: secrets,
  loads,
}: KindContext): KindAdapter<StreamRoute, OpenedStreamRoute> {
  const completed = new WeakMap<StreamRoute, KnownSecrets & CompletedContent<OpenedStreamRoute>>()
  return {
    definition,
    workload: 'broker',
    dependencies: [secrets, loads],
    typeUrl: streamRouteType,
    ...animationStreamRouteColumns,
    translate: translateAnimationStreamRoute,
    isContent: isStreamRoute,
    readSubject: (content, spec) => content?.match.streamIdPrefix ?? readPrefix(spec),
    openClaims: openStreamMatchClaims,
    findAdvisories: findOpenOverlaps,
    prepare: routes =>
      secrets.follow(
        routes.flatMap(route => Object.values(toTokenReferences(route))),
        routes.flatMap(route => toSigningReference(route) ?? []),
      ),
    complete(route, createdMs) {
      const references = toTokenReferences(route)
      const signing = toSigningReference(route)
      const readTokens = (reference: SecretReference | undefined) => reference && secrets.tokens(reference)
      const found = {
        both: readTokens(references.both),
        push: readTokens(references.push),
        pull: readTokens(references.pull),
        webhook: signing && secrets.signing(signing),
      }
      const known = completed.get(route)
      if (known?.published.createdMs === createdMs && isSame(known.found, found)) return known
      const tokens = {
        push: [...hashesOrClosed(found.both), ...hashesOrClosed(found.push)],
        pull: [...hashesOrClosed(found.both), ...hashesOrClosed(found.pull)],
      }
      const published = { route, createdMs, tokens, ...openWebhook(route, found.webhook) }
      const unmet = findUnmetTokens(references, found) ?? findUnmetWebhook(signing, found.webhook)
      const made = { found, published, unmet }
      completed.set(route, made)
      return made
    },
    encode: encodeStreamRoute,
    show: showStreamRoute,
    count(route, uids) {
      const { activeStreams, consumers } = route ? loads.sum(route.name, uids) : noLoad
      return { activeStreams, consumers }
    },
  }
}

const noLoad: RouteLoad = { activeStreams: 0, consumers: 0 }
/**
 * A hash that matches no token. It stands for missing tokens: without any hash the right would need no token,
 * and without the route its streams would go to other routes.
 */
const closedToAll: readonly Uint8Array[] = [new Uint8Array(32)]

const grants = ['both', 'push', 'pull'] as const
type Grant = (typeof grants)[number]

interface KnownSecrets {
  /** What was known of each Secret that the route names; undefined for one that it does not name. */
  readonly found: Readonly<Record<Grant, Tokens | undefined>> & {
    readonly webhook: SigningSecrets | undefined
  }
}

function isSame(a: KnownSecrets['found'], b: KnownSecrets['found']): boolean {
  return a.webhook === b.webhook && grants.every(grant => a[grant] === b[grant])
}

function toSigningReference({ name, webhook }: StreamRoute): SecretReference | undefined {
  const [namespace = ''] = name.split('/')
  return webhook && { namespace, secret: webhook.secret.name, key: webhook.secret.key }
}

/**
 * Returns the webhook for the feed; nothing while its signing secret is unknown, because brokers must sign.
 */
function openWebhook({ webhook }: StreamRoute, signing: SigningSecrets | undefined) {
  if (webhook === undefined || signing === undefined || !('secrets' in signing)) return {}
  return { webhook: { url: webhook.url, secrets: signing.secrets } }
}

function toTokenReferences(route: StreamRoute): Readonly<Partial<Record<Grant, SecretReference>>> {
  const [namespace = ''] = route.name.split('/')
  const { tokenSecret: both, pushTokenSecret: push, pullTokenSecret: pull } = route
  return Object.fromEntries(
    Object.entries({ both, push, pull }).flatMap(([grant, entry]) =>
      entry === undefined ? [] : [[grant, { namespace, secret: entry.name, key: entry.key }]],
    ),
  )
}

function hashesOrClosed(tokens: Tokens | undefined): readonly Uint8Array[] {
  if (tokens === undefined) return []
  return 'hashes' in tokens ? tokens.hashes : closedToAll
}

function findUnmetTokens(
  references: ReturnType<typeof toTokenReferences>,
  found: KnownSecrets['found'],
): UnmetDependency | undefined {
  for (const grant of grants) {
    const [reference, tokens] = [references[grant], found[grant]]
    const lack =
      reference && tokens && describeUnmet(reference, tokens, { without: closedBy[grant], old: oldTokens })
    if (lack !== undefined) return lack
  }
  return undefined
}

/** The effect of missing tokens, by the right that they give. */
const closedBy = {
  both: 'the route is closed to all callers until then',
  push: 'the route takes no pushes for its tokens until then',
  pull: 'the route takes no pulls for its tokens until then',
} as const satisfies Record<Grant, string>

const oldTokens = 'the tokens that were read before stay in force'

const webhookEffects: Effects = {
  without: 'the webhook receives no message until then',
  old: 'the signing secret that was read before stays in force',
}

function findUnmetWebhook(
  reference: SecretReference | undefined,
  signing: SigningSecrets | undefined,
): UnmetDependency | undefined {
  return reference && signing && describeUnmet(reference, signing, webhookEffects)
}

interface Effects {
  readonly without: string
  /** The effect while values that were read before stay in use. */
  readonly old: string
}

function describeUnmet(
  { namespace, secret, key }: SecretReference,
  known: Tokens | SigningSecrets,
  { without, old }: Effects,
): UnmetDependency | undefined {
  const name = `the Secret ${namespace}/${secret}`
  const isKnown = 'hashes' in known || 'secrets' in known
  if ('forbidden' in known && known.forbidden !== undefined) {
    const message = `the operator may not read ${name}; ${isKnown ? old : without}. ${known.forbidden}`
    return { reason: 'SecretForbidden', message }
  }
  if (isKnown) return undefined
  if ('missing' in known) return { reason: 'SecretMissing', message: `${name} ${known.missing}; ${without}` }
  const message = `${name} has not been read yet for its entry ${key}; ${without}`
  return { reason: 'SecretUnknown', message }
}

const maxShownCharacters = 100

function readPrefix(spec: unknown): string {
  const match = (spec as { match?: { streamIdPrefix?: unknown } | null } | null | undefined)?.match
  const prefix = match?.streamIdPrefix
  return typeof prefix === 'string' ? prefix.slice(0, maxShownCharacters) : ''
}
