import { useMemo } from 'preact/hooks'
import type { DomainList, ResourceList, RuleList } from '../../../api/shapes.ts'
import { inScope } from '../calls/session.ts'
import { usePoll } from '../calls/use-poll.ts'
import { useSeries } from '../calls/use-series.ts'
import { currentPods } from '../data/current-pods.ts'
import { findProblems } from '../data/find-problems.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { route } from '../data/route.ts'
import { createSeriesBuffer, type SeriesBuffer } from '../data/series-buffer.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { DomainChoice } from '../parts/domain-choice.ts'
import { EditLink } from '../parts/edit-link.ts'
import { KeyCounter } from '../parts/key-counter.ts'
import { Empty, ErrorNote } from '../parts/notes.ts'
import { ProblemList } from '../parts/problem-list.ts'
import { TopKeys } from '../parts/top-keys.ts'
import { TryRequest } from '../parts/try-request.ts'
import { Plot } from '../plots/plot.ts'
import { RuleTree } from '../tables/rule-tree.ts'

const everyMs = 1_000
const slowMs = 3_000
const page = { limit: 1_000 }
const summed = { ...page, totals: 'sum' }

/** The rules of one domain with their counts; a choice of the domain if the address names none. */
export function DomainPage() {
  const { domain } = route.value.parameters
  const domains = usePoll<DomainList>('/domains', { ...page, ...inScope.value }, slowMs)
  const names = domains.answer?.items.map(item => item.domain) ?? []
  const chosen = domain ?? names[0]
  const owner = domains.answer?.items.find(item => item.domain === chosen)?.owner
  // Rights are those in the namespace. One that came later would remove buttons for a moment, with the focus.
  const isKnown = domains.answer !== undefined || domains.problem !== undefined
  return html`
    <${ErrorNote} error=${domains.problem} />
    ${chosen !== undefined && html`<${DomainChoice} names=${names} chosen=${chosen} />`}
    ${
      chosen === undefined
        ? domains.answer && html`<${Empty}>No domain is in force: apply a RateLimitConfig.<//>`
        : isKnown && html`<${OneDomain} key=${chosen} domain=${chosen} owner=${owner} />`
    }
  `
}

interface OneDomainProps {
  readonly domain: string
  /** Null if no resource defines the domain any more; undefined if it is not known. */
  readonly owner: DomainList['items'][number]['owner'] | undefined
}

function OneDomain({ domain, owner }: OneDomainProps) {
  const rules = usePoll<RuleList>(`/domains/${encodeURIComponent(domain)}/rules`, summed, everyMs)
  const resources = usePoll<ResourceList>(
    '/resources',
    { kind: 'RateLimitConfig', ...page, ...inScope.value },
    everyMs,
  )
  const items = rules.answer?.items ?? []
  const history = useHistory(items)
  const rule = route.value.parameters['rule'] ?? items[0]?.rule
  const tree = { domain, rules: items, isKnown: rules.answer !== undefined, chosen: rule, history }
  const backends = findProblems([], currentPods(resources.answer?.pods ?? []))
  return html`
    <${ErrorNote} error=${rules.problem} />
    ${backends.length > 0 && html`<${ProblemList} problems=${backends} isKnown=${true} />`}
    <p class="facts">
      <${ReadyState} conditions=${rules.answer?.conditions ?? []} />
      <${ConditionList} conditions=${rules.answer?.conditions ?? []} />
      ${owner && html`<${EditLink} ...${owner} />`}
    </p>
    <${HitsPlot} title="All rules" domain=${domain} />
    <div class="split">
      <div class="side">
        <${RuleTree} ...${tree} />
        <${TryRequest} domain=${domain} />
      </div>
      <div class="side">
        ${rule !== undefined && html`<${OneRule} key=${rule} domain=${domain} rule=${rule} />`}
        <${KeyCounter} domain=${domain} namespace=${owner?.namespace} />
      </div>
    </div>
  `
}

function OneRule({ domain, rule }: { readonly domain: string; readonly rule: string }) {
  return html`<section class="card" aria-labelledby="rule">
    <h2 id="rule">${displayText(rule)}</h2>
    <${HitsPlot} title="This rule" domain=${domain} rule=${rule} />
    <${TopKeys} domain=${domain} rule=${rule} />
  </section>`
}

const lines = [
  { label: 'allowed', color: 'allowed' as const },
  { label: 'refused', color: 'refused' as const, isDashed: true },
  { label: 'near', color: 'near' as const },
  { label: 'shadow', color: 'shadow' as const, isDashed: true },
]

interface HitsPlotProps {
  readonly title: string
  readonly domain: string
  readonly rule?: string
}

function HitsPlot({ title, domain, rule }: HitsPlotProps) {
  const { buffer, last, stream } = useSeries(domain, rule)
  const opened = stream.value
  const points = { lines, columns: buffer.columns, version: last.value?.atMs ?? 0 }
  return html`
    <${Plot} title=${title} unit="hits a second" ...${points} />
    ${opened?.state.value === 'failed' && html`<${ErrorNote} error=${opened.problem.value} />`}
  `
}

const historyPoints = 60

/** The rates of each rule, one a poll. */
function useHistory(items: RuleList['items']): ReadonlyMap<string, SeriesBuffer> {
  const history = useMemo(() => new Map<string, SeriesBuffer>(), [])
  useMemo(() => {
    const now = Date.now() / 1000
    const names = new Set(items.map(({ rule }) => rule))
    for (const rule of history.keys()) if (!names.has(rule)) history.delete(rule)
    for (const { rule, callsPerSecond } of items) {
      const buffer = history.get(rule) ?? createSeriesBuffer(1, historyPoints)
      history.set(rule, buffer)
      buffer.push(now, [callsPerSecond])
    }
  }, [items])
  return history
}
