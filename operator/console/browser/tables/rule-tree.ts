import type { RuleList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { buildRuleTree, flatten, type RuleNode } from '../data/rule-tree.ts'
import type { SeriesBuffer } from '../data/series-buffer.ts'
import { Empty, Loading } from '../parts/notes.ts'
import { hitLines } from '../plots/lines.ts'
import { Spark } from '../plots/spark.ts'
import { type Column, showTable } from './data-table.ts'

type Rule = RuleList['items'][number]

interface RuleTreeProps {
  readonly domain: string
  readonly rules: readonly Rule[]
  /** Whether there are more rules than those in `rules`. */
  readonly hasMore: boolean
  readonly isKnown: boolean
  readonly chosen: string | undefined
  /** The rates by the name of the rule. */
  readonly history: ReadonlyMap<string, SeriesBuffer>
}

interface TreeRow {
  readonly node: RuleNode<Rule>
  readonly depth: number
}

export function RuleTree({ domain, rules, hasMore, isKnown, chosen, history }: RuleTreeProps) {
  if (!isKnown) return html`<${Loading} />`
  if (rules.length === 0)
    return html`<${Empty}>No rule of the domain has a limit. Add a rateLimit to a descriptor.<//>`
  return showTable({
    title: 'Rules',
    items: flatten(buildRuleTree(rules)),
    rowKey: ({ node }) => JSON.stringify(node.path),
    columns: buildColumns(domain, history),
    isCurrent: ({ node }) => node.rule !== undefined && node.rule.rule === chosen,
    hasMore,
    moreHint: `The API lists all: GET /api/v1/domains/${encodeURIComponent(domain)}/rules`,
  })
}

const maxIndent = 6

const buildColumns = (domain: string, history: RuleTreeProps['history']): readonly Column<TreeRow>[] => [
  {
    label: 'Rule',
    cell: ({ node: { label, rule } }) =>
      rule === undefined
        ? displayText(label)
        : html`<a href=${linkTo('domain', { domain, rule: rule.rule })} title=${displayText(rule.rule)}>
            ${displayText(label)}
          </a>`,
    style: ({ depth }) => `indent-${Math.min(depth, maxIndent)}`,
  },
  { label: 'Limit', cell: ({ node: { rule } }) => html`<${Limit} rule=${rule} />` },
  {
    label: 'Hits/s',
    kind: 'number',
    cell: ({ node: { rule } }) => counted(rule, rule => formatRate(rule.hitsPerSecond)),
  },
  {
    label: 'Last minute',
    cell({ node: { rule } }) {
      if (!isCounted(rule)) return ''
      const columns = history.get(rule.rule)?.columns ?? []
      return html`<${Spark} lines=${hitLines} columns=${columns} version=${columns[0]?.at(-1) ?? 0} />`
    },
  },
  ...totals.map(
    ([label, name]): Column<TreeRow> => ({
      label,
      kind: 'number',
      cell: ({ node: { rule } }) => counted(rule, rule => formatCount(rule[name])),
      style: ({ node: { rule } }) => (name === 'refused' && rule && rule.refused > 0 ? 'rejected' : ''),
    }),
  ),
]

const totals = [
  ['Allowed', 'allowed'],
  ['Rejected', 'refused'],
  ['Near', 'near'],
  ['Shadow', 'shadow'],
] as const

/** Returns whether a rule counts hits. Unlimited rules, and descriptors without a limit, do not. */
const isCounted = (rule: Rule | undefined): rule is Rule =>
  rule !== undefined && rule.limit?.unlimited !== true

const counted = (rule: Rule | undefined, format: (rule: Rule) => string) =>
  isCounted(rule) ? format(rule) : ''

/** Shows the limit of a rule, such as `5 per minute`, with the algorithm and the modes. */
function Limit({ rule }: { readonly rule: Rule | undefined }) {
  const limit = rule?.limit
  if (limit === undefined) return html`<span class="fine">no limit</span>`
  if (limit === null) return html`<span class="fine">no longer configured</span>`
  if (limit.unlimited) return 'unlimited'
  const { requestsPerUnit, window, algorithm, counting, burst, matching, shadowMode, quotaMode } = limit
  const bucket = burst === requestsPerUnit ? '' : `, burst ${formatCount(burst)}`
  const isLeased = counting === 'Leased'
  const marks = [isLeased && 'leased', shadowMode && 'shadow mode', quotaMode && 'quota'].filter(
    mark => mark !== false,
  )
  const separator = algorithm === 'Concurrency' ? ' at once,' : ' per'
  return html`${formatCount(requestsPerUnit)}${separator} ${displayText(window)}
    ${algorithm !== 'FixedWindow' && html`<br /><span class="fine">${displayText(algorithm)}${bucket}</span>`}
    ${matching !== undefined && html`<br /><span class="fine">${displayText(matching)}</span>`}
    ${marks.map(mark => html`${' '}<span class="mark">${mark}</span>`)}`
}
