import type { RuleList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { flatten, type RuleNode, ruleTree } from '../data/rule-tree.ts'
import type { SeriesBuffer } from '../data/series-buffer.ts'
import { Asking, Empty } from '../parts/notes.ts'
import { hitLines } from '../plots/lines.ts'
import { Spark } from '../plots/spark.ts'
import { type Column, DataTable, type DataTableProps } from './data-table.ts'

type Rule = RuleList['items'][number]

export interface RuleTreeProps {
  readonly domain: string
  readonly rules: readonly Rule[]
  /** Whether more exist. */
  readonly hasMore: boolean
  readonly isKnown: boolean
  readonly chosen: string | undefined
  /** The rates of each rule. */
  readonly history: ReadonlyMap<string, SeriesBuffer>
}

interface TreeRow {
  readonly node: RuleNode<Rule>
  readonly depth: number
}

/** The rules as a tree, in the rows of a table: a rule below another one is indented. */
export function RuleTree({ domain, rules, hasMore, isKnown, chosen, history }: RuleTreeProps) {
  if (!isKnown) return html`<${Asking} />`
  if (rules.length === 0) return html`<${Empty}>No rule of the domain has a limit.<//>`
  const table: DataTableProps<TreeRow> = {
    title: 'Rules',
    items: flatten(ruleTree(domain, rules)),
    keyOf: ({ node }) => node.rule.rule,
    columns: columnsOf(domain, history),
    isCurrent: ({ node }) => node.rule.rule === chosen,
    hasMore,
    rest: `The API lists all: GET /api/v1/domains/${encodeURIComponent(domain)}/rules`,
  }
  return html`<${DataTable} ...${table} />`
}

const maxIndent = 6

const columnsOf = (domain: string, history: RuleTreeProps['history']): readonly Column<TreeRow>[] => [
  {
    label: 'Rule',
    cell: ({ node: { label, rule } }) =>
      html`<a href=${linkTo('domain', { domain, rule: rule.rule })} title=${displayText(rule.rule)}>
        ${displayText(label)}
      </a>`,
    style: ({ depth }) => `indent-${Math.min(depth, maxIndent)}`,
  },
  { label: 'Calls/s', kind: 'number', cell: ({ node }) => formatRate(node.rule.callsPerSecond) },
  {
    label: 'Last minute',
    cell({ node }) {
      const columns = history.get(node.rule.rule)?.columns ?? []
      return html`<${Spark} lines=${hitLines} columns=${columns} version=${columns[0]?.at(-1) ?? 0} />`
    },
  },
  { label: 'Allowed', kind: 'number', cell: ({ node }) => formatCount(node.rule.allowed) },
  {
    label: 'Refused',
    kind: 'number',
    cell: ({ node }) => formatCount(node.rule.refused),
    style: ({ node }) => (node.rule.refused > 0 ? 'refused' : ''),
  },
  { label: 'Near', kind: 'number', cell: ({ node }) => formatCount(node.rule.near) },
  { label: 'Shadow', kind: 'number', cell: ({ node }) => formatCount(node.rule.shadow) },
]
