import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { streamRouteTypeUrl } from '../../kinds/animation-stream-route/encode-stream-route.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { OwnClientState } from '../../xds/acknowledgements.ts'
import type { Right } from '../endpoints.ts'
import type { ResourceList } from '../shapes.ts'
import type { ApiSources } from '../sources.ts'
import { withoutPods } from './domains.ts'
import { type ApiCall, type Handler, optionalText, textOf } from './handler.ts'
import { pageOf } from './page-of.ts'

const feeds = [
  { kind: 'RateLimitConfig', typeUrl: rateLimitTypeUrl },
  { kind: 'AnimationStreamRoute', typeUrl: streamRouteTypeUrl },
]

/** Returns the right for the resources of a kind. */
export function rightOn(verb: Right['verb'], kind: string): Right {
  const { plural = '' } = resourceKinds.find(known => known.kind === kind) ?? {}
  return { verb, resource: plural }
}

/** Returns the resources of a kind, in the namespace of the call if it names one. */
export function chosenBy(call: ApiCall, kind: string): readonly ResourceStatus[] {
  const namespace = optionalText(call, 'namespace')
  return call.sources
    .report()
    .resources.filter(
      resource => resource.kind === kind && (namespace === undefined || resource.namespace === namespace),
    )
}

export const nameOf = ({ namespace, name }: ResourceStatus) => `${namespace}/${name}`

export const resources: Handler = {
  placeOf: call => ({ namespace: optionalText(call, 'namespace') }),
  rightOf: call => rightOn('list', textOf(call, 'kind')),
  async answer(call): Promise<ResourceList> {
    const { sources, parameters } = call
    const kind = textOf(call, 'kind')
    const page = pageOf(chosenBy(call, kind), nameOf, parameters)
    const typeUrl = feeds.find(feed => feed.kind === kind)?.typeUrl
    const rejectionsOf = typeUrl === undefined ? () => [] : rejectionsIn(sources, typeUrl)
    return {
      ...page,
      items: page.items.map(resource => describeResource(resource, rejectionsOf(nameOf(resource)))),
      feeds: feeds.filter(feed => feed.kind === kind).map(feed => describeFeed(sources, feed)),
      pods: kind === 'RateLimitConfig' ? await describePods(sources) : [],
    }
  },
}

function describeResource(
  { kind, namespace, name, subject, origin, observedGeneration, counts, enforced, ...rest }: ResourceStatus,
  rejections: ResourceList['items'][number]['rejections'],
): ResourceList['items'][number] {
  return {
    ...{ kind, namespace, name, subject, origin, observedGeneration, enforced, rejections },
    counts: { ...counts },
    problems: rest.problems.map(({ path, message }) => ({ path, message })),
    conditions: [...rest.conditions],
  }
}

function rejectionsIn({ feed }: ApiSources, typeUrl: string) {
  const uids = [...new Set(feed.clients().map(({ uid }) => uid))]
  const enforcementOf = feed.enforcement(typeUrl, uids)
  const published = feed.published(typeUrl)?.resources
  return (name: string) => {
    const resource = published?.get(name)
    if (resource === undefined) return []
    return enforcementOf(resource).rejections.map(({ pod, message }) => ({ pod, message }))
  }
}

/** The pods by version. A pod with several workers counts with each version that one of them has. */
function describeFeed({ feed }: ApiSources, { kind, typeUrl }: (typeof feeds)[number]) {
  const states: readonly OwnClientState[] = feed.clientStates().get(typeUrl) ?? []
  const connected = states.filter(state => state.connected)
  const byVersion = Map.groupBy(connected, ({ inForce }) => inForce?.version ?? '')
  return {
    kind,
    version: feed.published(typeUrl)?.version ?? '',
    versions: [...byVersion].map(([version, list]) => ({
      version,
      pods: new Set(list.map(({ client }) => client.uid)).size,
    })),
  }
}

async function describePods({ pods }: ApiSources): Promise<ResourceList['pods']> {
  const { items } = await withoutPods(pods.pods())
  return items.map(item => ({
    ...{ pod: item.pod, namespace: item.namespace, isReporting: item.isReporting },
    ...{ lastReportMsAgo: Math.round(item.lastReportMsAgo), backend: item.backend },
    ...{ backendProblem: item.backendProblem, decisionsPerSecond: item.decisionsPerSecond },
    ...{ p50Ms: item.p50Ms, p99Ms: item.p99Ms, features: [...item.features] },
  }))
}
