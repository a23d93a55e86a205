import type { RuleList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { flatten, type RuleNode, ruleTree } from '../data/rule-tree.ts'
import type { SeriesBuffer } from '../data/series-buffer.ts'
import { Empty } from '../parts/notes.ts'
import { Spark } from '../plots/spark.ts'

type Rule = RuleList['items'][number]

export interface RuleTreeProps {
  readonly domain: string
  readonly rules: readonly Rule[]
  readonly isKnown: boolean
  readonly chosen: string | undefined
  /** The rates of each rule. */
  readonly history: ReadonlyMap<string, SeriesBuffer>
}

/** The rules as a tree, in the rows of a table: a rule below another one is indented. */
export function RuleTree({ domain, rules, isKnown, chosen, history }: RuleTreeProps) {
  if (!isKnown) return html`<${Empty}>Asking the operator …<//>`
  if (rules.length === 0)
    return html`<${Empty}>No rule of the domain has had a hit since its pods started.<//>`
  return html`<div class="scroll rules" role="region" aria-label="Rules with hits" tabindex="0">
    <table>
      <caption>Rules with hits</caption>
      <thead>
        <tr>
          <th scope="col">Rule</th>
          <th scope="col" class="number">Calls/s</th>
          <th scope="col"><span class="hidden">Calls of the last minute</span></th>
          <th scope="col" class="number">Allowed</th>
          <th scope="col" class="number">Refused</th>
          <th scope="col" class="number">Near</th>
          <th scope="col" class="number">Shadow</th>
        </tr>
      </thead>
      <tbody>
        ${flatten(ruleTree(domain, rules)).map(
          ({ node, depth }) =>
            html`<${Row} key=${node.rule.rule} ...${{ domain, node, depth, chosen, history }} />`,
        )}
      </tbody>
    </table>
  </div>`
}

interface RowProps extends Pick<RuleTreeProps, 'domain' | 'chosen' | 'history'> {
  readonly node: RuleNode<Rule>
  readonly depth: number
}

const maxIndent = 6

function Row({ domain, node, depth, chosen, history }: RowProps) {
  const { rule, callsPerSecond, allowed, refused, near, shadow } = node.rule
  const [times = [], rates = []] = history.get(rule)?.columns ?? []
  return html`<tr aria-current=${rule === chosen ? 'true' : undefined}>
    <th scope="row" class="indent-${Math.min(depth, maxIndent)}">
      <a href=${linkTo('domain', { domain, rule })} title=${displayText(rule)}>${displayText(node.label)}</a>
    </th>
    <td class="number">${formatRate(callsPerSecond)}</td>
    <td><${Spark} values=${rates} version=${times.at(-1) ?? 0} /></td>
    <td class="number">${formatCount(allowed)}</td>
    <td class="number ${refused > 0 ? 'refused' : ''}">${formatCount(refused)}</td>
    <td class="number">${formatCount(near)}</td>
    <td class="number">${formatCount(shadow)}</td>
  </tr>`
}
