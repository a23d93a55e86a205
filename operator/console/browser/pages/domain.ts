import { useMemo, useRef } from 'preact/hooks'
import type { DomainList, ResourceList, RuleList } from '../../../api/shapes.ts'
import { inScope } from '../calls/session.ts'
import { usePages } from '../calls/use-pages.ts'
import { usePoll } from '../calls/use-poll.ts'
import { useSeries } from '../calls/use-series.ts'
import { currentPods } from '../data/current-pods.ts'
import { findProblems } from '../data/find-problems.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { route } from '../data/route.ts'
import { SeriesBuffer } from '../data/series-buffer.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { DomainChoice, DomainsNote } from '../parts/domain-choice.ts'
import { EditLink } from '../parts/edit-link.ts'
import { KeyCounter } from '../parts/key-counter.ts'
import { ErrorNote } from '../parts/notes.ts'
import { ProblemList } from '../parts/problem-list.ts'
import { TopKeysList } from '../parts/top-keys.ts'
import { TryRequest } from '../parts/try-request.ts'
import { hitLines } from '../plots/lines.ts'
import { Plot } from '../plots/plot.ts'
import { RuleTree } from '../tables/rule-tree.ts'

const everyMs = 1_000
const slowMs = 3_000
const summed = { totals: 'sum' }
/** The parameters of a list of which only the pods are used, so that one resource is enough. */
const podsOnly = { kind: 'RateLimitConfig', limit: 1 }

export function DomainPage() {
  const { domain } = route.value.parameters
  const domains = usePages<DomainList>('/domains', inScope.value, slowMs)
  const names = domains.answer?.items.map(item => item.domain) ?? []
  const chosen = domain ?? names[0]
  const owner = domains.answer?.items.find(item => item.domain === chosen)?.owner
  if (chosen === undefined) return html`<${DomainsNote} ...${domains} />`
  // If the namespace of the domain were known only later, the rights could change, and remove a button that
  // has the focus.
  const isKnown = domains.answer !== undefined || domains.problem !== undefined
  return html`
    <${ErrorNote} error=${domains.problem} />
    <${DomainChoice} list=${domains.answer} chosen=${chosen} />
    ${isKnown && html`<${OneDomain} key=${chosen} domain=${chosen} owner=${owner} />`}
  `
}

interface OneDomainProps {
  readonly domain: string
  /** Null if no resource defines the domain any more; undefined if it is unknown. */
  readonly owner: DomainList['items'][number]['owner'] | undefined
}

function OneDomain({ domain, owner }: OneDomainProps) {
  const rules = usePages<RuleList>(`/domains/${encodeURIComponent(domain)}/rules`, summed, everyMs)
  const resources = usePoll<ResourceList>('/resources', { ...podsOnly, ...inScope.value }, everyMs)
  const items = rules.answer?.items ?? []
  const history = useHistory(items)
  const first = useFirstRule(items)
  const rule = route.value.parameters['rule'] ?? first
  const tree = {
    domain,
    rules: items,
    isKnown: rules.answer !== undefined,
    chosen: rule,
    history,
    hasMore: rules.answer?.next !== undefined,
  }
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
        ${(tree.isKnown || rules.problem === undefined) && html`<${RuleTree} ...${tree} />`}
        <${TryRequest} domain=${domain} />
      </div>
      <div class="side">
        ${rule !== undefined && html`<${OneRule} key=${rule} domain=${domain} rule=${rule} />`}
        <${KeyCounter} domain=${domain} namespace=${owner?.namespace} />
      </div>
    </div>
  `
}

/**
 * Returns the first rule with hits or, if no rule has hits, the first rule. The choice does not change later.
 */
function useFirstRule(items: RuleList['items']): string | undefined {
  const first = useRef<string | undefined>(undefined)
  const hasHits = ({ allowed, refused, shadow }: RuleList['items'][number]) => allowed + refused + shadow > 0
  first.current ??= (items.find(hasHits) ?? items[0])?.rule
  return first.current
}

function OneRule({ domain, rule }: { readonly domain: string; readonly rule: string }) {
  return html`<section class="card" aria-labelledby="rule">
    <h2 id="rule">${displayText(rule)}</h2>
    <${HitsPlot} title="This rule" domain=${domain} rule=${rule} />
    <${TopKeysList} domain=${domain} rule=${rule} />
  </section>`
}

interface HitsPlotProps {
  readonly title: string
  readonly domain: string
  readonly rule?: string
}

function HitsPlot({ title, domain, rule }: HitsPlotProps) {
  const { buffer, version, stream } = useSeries(domain, rule)
  const opened = stream.value
  const points = { lines: hitLines, columns: buffer.columns, version: version.value }
  return html`
    <${Plot} title=${title} unit="hits/s" ...${points} />
    ${opened?.state.value === 'failed' && html`<${ErrorNote} error=${opened.problem.value} />`}
  `
}

const historyPoints = 60

/** Collects the rates of each rule, a point for each poll, in the order of `hitLines`. */
function useHistory(items: RuleList['items']): ReadonlyMap<string, SeriesBuffer> {
  const history = useMemo(() => new Map<string, SeriesBuffer>(), [])
  useMemo(() => {
    const now = Date.now() / 1000
    const names = new Set(items.map(({ rule }) => rule))
    for (const rule of history.keys()) if (!names.has(rule)) history.delete(rule)
    for (const { rule, hitsPerSecond, rejectedPerSecond, nearPerSecond, shadowPerSecond } of items) {
      const buffer = history.get(rule) ?? new SeriesBuffer(hitLines.length, historyPoints)
      history.set(rule, buffer)
      const allowed = hitsPerSecond - rejectedPerSecond - shadowPerSecond
      buffer.push(now, [allowed, rejectedPerSecond, nearPerSecond, shadowPerSecond])
    }
  }, [items])
  return history
}
