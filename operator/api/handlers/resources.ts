import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { streamRouteType } from '../../kinds/animation-stream-route/stream-route.ts'
import { qualifiedName } from '../../kinds/source.ts'
import type { FeedRejections } from '../../leader/feed-states.ts'
import { paginate, readAll } from '../../ratelimit-queries/pages.ts'
import { maxPageItems, type PodState } from '../../ratelimit-queries/pod-sessions.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { ApiCaller, RightScope } from '../access.ts'
import { type ApiEndpoint, type ApiRight, apiEndpoints } from '../endpoints.ts'
import { ApiError } from '../errors.ts'
import type { ManifestAnswer } from '../manifest-shapes.ts'
import type { ResourceList, RightList } from '../shapes.ts'
import { type ApiCall, type Handler, optionalText, readPage, requiredText } from './handler.ts'

const feeds = [
  { kind: 'RateLimitConfig', typeUrl: rateLimitTypeUrl },
  { kind: 'AnimationStreamRoute', typeUrl: streamRouteType },
]

function makeRight(verb: ApiRight['verb'], kind: string): ApiRight {
  const { plural = '' } = resourceKinds.find(known => known.kind === kind) ?? {}
  return { verb, resource: plural }
}

export function selectResources(call: ApiCall, kind: string): readonly ResourceStatus[] {
  const namespace = optionalText(call, 'namespace')
  return call.sources
    .report()
    .resources.filter(
      resource => resource.kind === kind && (namespace === undefined || resource.namespace === namespace),
    )
}

export const resources: Handler = {
  resolveScope: call => ({ namespace: optionalText(call, 'namespace') }),
  resolveRight: call => makeRight('list', requiredText(call, 'kind')),
  async answer(call): Promise<ResourceList> {
    const { sources, parameters } = call
    const kind = requiredText(call, 'kind')
    const page = paginate(selectResources(call, kind), qualifiedName, readPage(call))
    const { typeUrl } = feeds.find(feed => feed.kind === kind) ?? {}
    const state = typeUrl && (await sources.feedStates.read(typeUrl, page.items.map(qualifiedName)))
    const withPods = kind === 'RateLimitConfig' && parameters['after'] === undefined
    const pods = withPods ? await readAll(page => sources.pods.pods(page)) : []
    const shown = pods.slice(0, maxPageItems)
    return {
      ...page,
      items: page.items.map(resource =>
        describeResource(resource, state ? state.rejections[qualifiedName(resource)] : undefined),
      ),
      feeds: state ? [{ kind, version: state.version, versions: [...state.versions] }] : [],
      pods: shown.map(describePod),
      unlistedPods: pods.length - shown.length,
    }
  },
}

function describeResource(
  { kind, namespace, name, subject, origin, observedGeneration, counts, enforced, ...rest }: ResourceStatus,
  { shown, unlisted }: FeedRejections = { shown: [], unlisted: 0 },
): ResourceList['items'][number] {
  return {
    kind,
    namespace,
    name,
    subject,
    origin,
    observedGeneration,
    enforced,
    rejections: [...shown],
    unlistedRejections: unlisted,
    counts: { ...counts },
    problems: rest.problems.map(({ path, message }) => ({ path, message })),
    conditions: [...rest.conditions],
  }
}

const describePod = (item: PodState): ResourceList['pods'][number] => ({
  pod: item.pod,
  namespace: item.namespace,
  isReporting: item.isReporting,
  lastReportMsAgo: Math.round(item.lastReportMsAgo),
  backend: item.backend,
  backendProblem: item.backendProblem,
  decisionsPerSecond: item.decisionsPerSecond,
  p50Ms: item.p50Ms,
  p99Ms: item.p99Ms,
  features: [...item.features],
})

const resolveManifestScope = (call: ApiCall) => ({
  namespace: requiredText(call, 'namespace'),
  name: requiredText(call, 'name'),
})

export const manifest: Handler = {
  resolveScope: resolveManifestScope,
  resolveRight: call => makeRight('get', requiredText(call, 'kind')),
  async answer(call): Promise<ManifestAnswer> {
    const asked = { kind: requiredText(call, 'kind'), ...resolveManifestScope(call) }
    const { token } = call.caller
    return { ...asked, ...(await call.sources.manifest({ ...asked, token, signal: call.signal })) }
  },
}

const neededRights: readonly ApiRight[] = [
  ...new Map(
    (apiEndpoints as readonly ApiEndpoint[]).flatMap(({ right }) =>
      right === undefined ? [] : [[`${right.verb} ${right.resource}`, right] as const],
    ),
  ).values(),
]

export const rightsHandler: Handler = {
  resolveScope: () => ({}),
  async answer(call): Promise<RightList> {
    const namespace = optionalText(call, 'namespace')
    const found = neededRights.map(async right => ({
      verb: right.verb,
      resource: right.resource,
      allowed: await isAllowed(call.caller, right, { namespace }),
    }))
    return {
      user: call.caller.name,
      ...(namespace !== undefined && { namespace }),
      rights: await Promise.all(found),
    }
  },
}

async function isAllowed(caller: ApiCaller, right: ApiRight, scope: RightScope): Promise<boolean> {
  try {
    await caller.authorize(right, scope)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return false
    throw error
  }
}
