import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { DomainList, HistoryAnswer, ResourceList, SeriesPointEvent } from '../../../api/shapes.ts'
import type { QueryParameters } from '../calls/api.ts'
import { EventStream } from '../calls/event-stream.ts'
import { inScope } from '../calls/session.ts'
import { usePages } from '../calls/use-pages.ts'
import { plotCapacity, readHistory } from '../calls/use-series.ts'
import { currentPods } from '../data/current-pods.ts'
import { findProblems } from '../data/find-problems.ts'
import { formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { SeriesBuffer } from '../data/series-buffer.ts'
import { ErrorNotes } from '../parts/notes.ts'
import { ProblemList } from '../parts/problem-list.ts'
import { Plot } from '../plots/plot.ts'
import { BackendsTable } from '../tables/backend-table.ts'
import { DomainsTable } from '../tables/domain-table.ts'
import { FeedVersions } from '../tables/feed-versions.ts'
import { PodsTable } from '../tables/pod-table.ts'
import { ResourcesTable } from '../tables/resource-table.ts'

type Domain = DomainList['items'][number]
type Pod = ResourceList['pods'][number]

const everyMs = 1_000
const slowMs = 3_000

export function Overview() {
  const shown = inScope.value
  const limits = usePages<ResourceList>('/resources', { kind: 'RateLimitConfig', ...shown }, everyMs)
  const routes = usePages<ResourceList>('/resources', { kind: 'AnimationStreamRoute', ...shown }, slowMs)
  const merchants = usePages<ResourceList>('/resources', { kind: 'Merchant', ...shown }, slowMs)
  const domains = usePages<DomainList>('/domains', shown, everyMs)
  const lists = [limits, routes, merchants]
  const all = lists.flatMap(({ answer }) => answer?.items ?? [])
  const hasMore = lists.some(({ answer }) => answer?.next !== undefined)
  const listed = limits.answer?.pods
  const pods = useMemo(() => currentPods(listed ?? []), [listed])
  const past = useHistory(shown)
  const isKnown = limits.answer !== undefined
  const isPartial = hasMore || lists.some(({ answer }) => answer === undefined)
  const problem = limits.problem ?? domains.problem
  return html`
    <${ErrorNotes} errors=${[...lists, domains].map(polled => polled.problem)} />
    ${
      (isKnown || problem === undefined) &&
      html`<${ProblemList} problems=${findProblems(all, pods)} ...${{ isKnown, isPartial }}
        checked=${[formatQuantity(all.length, 'resource'), formatQuantity(pods.length, 'rate limit pod')]} />`
    }
    <section class="plots" aria-label="Live figures">
      <${Traffic} domains=${domains.answer?.items ?? []} past=${past} />
      <${Latency} pods=${pods} past=${past} />
    </section>
    <${DomainsTable} list=${domains.answer} />
    <${ResourcesTable} resources=${all} ...${{ hasMore, isKnown }} />
    <${BackendsTable} resources=${all} pods=${pods} />
    <section class="columns">
      <${PodsTable} pods=${pods} isKnown=${isKnown} />
      <${FeedVersions} feeds=${[limits, routes].flatMap(({ answer }) => answer?.feeds ?? [])} />
    </section>
  `
}

const formatQuantity = (count: number, noun: string) =>
  `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`

/** The points of the last 15 minutes; undefined until they are read. */
type History = HistoryAnswer['points'] | undefined

function useHistory(shown: QueryParameters): History {
  const past = useSignal<History>(undefined)
  useEffect(() => {
    const unmounted = new AbortController()
    readHistory(shown, unmounted.signal).then(points => {
      if (!unmounted.signal.aborted) past.value = points
    })
    return () => unmounted.abort()
  }, [JSON.stringify(shown)])
  return past.value
}

/** The most streams: a browser opens at most six connections to a server, and each stream takes one. */
const maxStreams = 3
const trafficLines = [
  { label: 'all', color: 'muted' as const },
  { label: 'allowed', color: 'allowed' as const },
  { label: 'rejected', color: 'rejected' as const, isDashed: true },
]

/**
 * Plots the hits of all domains. The busiest domains are streamed second by second; for the others, the rates
 * of the last 5 s are added.
 */
function Traffic({ domains, past }: { readonly domains: readonly Domain[]; readonly past: History }) {
  const buffer = useMemo(() => new SeriesBuffer(trafficLines.length, plotCapacity), [])
  const version = useSignal(0)
  const watched = useWatched(domains)
  const listed = useRef(domains)
  listed.current = domains
  useEffect(() => {
    if (past === undefined) return
    for (const { atMs, allowed, refused, shadow } of past)
      buffer.push(atMs / 1000, [allowed + shadow + refused, allowed + shadow, refused])
    version.value += 1
  }, [past])
  useEffect(() => {
    if (past === undefined) return
    const live = new Map<string, SeriesPointEvent>()
    const streams = watched.map(
      domain =>
        new EventStream<SeriesPointEvent>('/series', { domain }, point => {
          live.set(domain, point)
          buffer.push(point.atMs / 1000, sumHits(listed.current, live))
          version.value += 1
        }),
    )
    return () => {
      for (const stream of streams) stream.close()
    }
  }, [past, JSON.stringify(watched)])
  const props = { title: 'Hits', unit: 'hits/s', lines: trafficLines }
  return html`<${Plot} ...${props} columns=${buffer.columns} version=${version.value} />`
}

/** Returns the numbers of all, allowed and rejected hits of a second. Shadow mode allows hits. */
function sumHits(domains: readonly Domain[], live: ReadonlyMap<string, SeriesPointEvent>) {
  const rates = domains
    .filter(({ domain }) => !live.has(domain))
    .map(({ hitsPerSecond, rejectedPerSecond }) => [hitsPerSecond - rejectedPerSecond, rejectedPerSecond])
  const points = [...live.values()].map(({ allowed, shadow, refused }) => [allowed + shadow, refused])
  const sum = (of: 0 | 1) => [...rates, ...points].reduce((total, hits) => total + (hits[of] ?? 0), 0)
  return [sum(0) + sum(1), sum(0), sum(1)]
}

/**
 * Returns the busiest domains. The choice changes only with the list of domains, so that streams stay open.
 */
function useWatched(domains: readonly Domain[]): readonly string[] {
  const names = JSON.stringify(domains.map(({ domain }) => domain))
  return useMemo(
    () =>
      [...domains]
        .sort((a, b) => b.hitsPerSecond - a.hitsPerSecond)
        .slice(0, maxStreams)
        .map(({ domain }) => domain),
    [names],
  )
}

const latencyLines = [
  { label: 'p50', color: 'accent' as const },
  { label: 'p99', color: 'near' as const, isDashed: true },
]

function Latency({ pods, past }: { readonly pods: readonly Pod[]; readonly past: History }) {
  const buffer = useMemo(() => new SeriesBuffer(2, plotCapacity), [])
  const version = useSignal(0)
  useEffect(() => {
    if (past === undefined) return
    for (const { atMs, p50Ms, p99Ms } of past) buffer.push(atMs / 1000, [p50Ms, p99Ms])
    version.value += 1
  }, [past])
  useEffect(() => {
    if (past === undefined || pods.length === 0) return
    const most = (of: (pod: Pod) => number) => Math.max(...pods.map(of))
    buffer.push(Math.round(Date.now() / 1000), [most(pod => pod.p50Ms), most(pod => pod.p99Ms)])
    version.value += 1
  }, [past, pods])
  const props = { title: 'Decisions', unit: 'ms, slowest pod', lines: latencyLines }
  return html`<${Plot} ...${props} columns=${buffer.columns} version=${version.value} />`
}
