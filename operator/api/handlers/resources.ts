import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import type { PodState } from '../../counters/pod-sessions.ts'
import { readAll } from '../../counters/read-all.ts'
import { streamRouteTypeUrl } from '../../kinds/animation-stream-route/stream-route.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import type { FeedRejections } from '../../xds/feed-states.ts'
import { maxPageItems, type Right } from '../endpoints.ts'
import type { ResourceList } from '../shapes.ts'
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
    const { typeUrl } = feeds.find(feed => feed.kind === kind) ?? {}
    const state = typeUrl && (await sources.feedStates.of(typeUrl, page.items.map(nameOf)))
    const withPods = kind === 'RateLimitConfig' && parameters['after'] === undefined
    const pods = withPods ? await readAll(page => sources.pods.pods(page)) : []
    const shown = pods.slice(0, maxPageItems)
    return {
      ...page,
      items: page.items.map(resource =>
        describeResource(resource, state ? state.rejections[nameOf(resource)] : undefined),
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
    ...{ kind, namespace, name, subject, origin, observedGeneration, enforced },
    ...{ rejections: [...shown], unlistedRejections: unlisted },
    counts: { ...counts },
    problems: rest.problems.map(({ path, message }) => ({ path, message })),
    conditions: [...rest.conditions],
  }
}

const describePod = (item: PodState): ResourceList['pods'][number] => ({
  ...{ pod: item.pod, namespace: item.namespace, isReporting: item.isReporting },
  ...{ lastReportMsAgo: Math.round(item.lastReportMsAgo), backend: item.backend },
  ...{ backendProblem: item.backendProblem, decisionsPerSecond: item.decisionsPerSecond },
  ...{ p50Ms: item.p50Ms, p99Ms: item.p99Ms, features: [...item.features] },
})
