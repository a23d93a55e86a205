import { describeCaveats, formatBounds } from '../../../api/replay-bounds.ts'
import type { WhatIfAnswer } from '../../../api/shapes.ts'
import { displayEntries, displayText, formatAge, formatChange, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { type Column, showTable } from './data-table.ts'

type Rule = WhatIfAnswer['rules'][number]
type Key = WhatIfAnswer['keys'][number]

export function BeforeAfter({ answer }: { readonly answer: WhatIfAnswer }) {
  const { rules, keys } = answer
  const ruleTable = showTable({
    title: 'Rejected hits by rule',
    items: rules,
    rowKey: ({ rule }) => rule,
    columns: ruleColumns,
  })
  const keyTable = showTable({
    title: 'Keys with the largest changes',
    items: keys.slice(0, maxKeys),
    rowKey: ({ entries }) => JSON.stringify(entries),
    columns: keyColumns,
  })
  return html`
    <p class="fine"><${Coverage} answer=${answer} /></p>
    ${rules.length > 0 && html`<${Legend} />${ruleTable}`}
    ${keys.length > 0 && keyTable}
  `
}

const sum = ({ allowed, refused }: Rule['now']) => allowed + refused

/** The bounds are on a second line, so that the table fits beside the editor. */
function Rejected({ hits }: { readonly hits: Rule['now'] }) {
  const bounds = formatBounds(hits)
  return html`${formatCount(hits.refused)} of ${formatCount(sum(hits))}
    ${bounds && html`<br /><span class="fine">(${bounds})</span>`}`
}

function Coverage({ answer }: { readonly answer: WhatIfAnswer }) {
  const { fromMs, recordedCalls, calls, pods, missing } = answer.coverage
  if (fromMs === undefined) return 'No call of the domain is recorded yet. Send some, and replay again.'
  const age = formatAge(Date.now() - fromMs)
  const of = `${formatCount(recordedCalls)} of ${formatCount(calls)} calls of the last ${age}`
  const hits = answer.rules.reduce((total, { now }) => total + sum(now), 0)
  const absent =
    missing.length === 0 ? '' : `No answer from ${missing.map(pod => displayText(pod)).join(', ')}.`
  const basis = `Based on ${of}, recorded by ${pods} ${pods === 1 ? 'pod' : 'pods'}: ${formatCount(hits)} hits of rules.`
  return [basis, ...describeCaveats(answer, name => displayText(name)), absent].join(' ')
}

const Legend = () => html`<p class="legend" aria-hidden="true">
  <span class="key"><i class="swatch allowed"></i>allowed</span>
  <span class="key"><i class="swatch rejected"></i>rejected</span>
</p>`

/**
 * Returns the number of hits that the full width of the bars of a rule stands for. One scale for all rules
 * would make small rules invisible.
 */
const largestSum = ({ now, proposed }: Rule) => Math.max(1, sum(now), sum(proposed))

const ruleColumns: readonly Column<Rule>[] = [
  { label: 'Rule', cell: ({ rule }) => displayText(rule) },
  {
    label: 'Bars',
    kind: 'action',
    cell: rule => html`
      <${Bar} share=${rule.now} most=${largestSum(rule)} label="now" />
      <${Bar} share=${rule.proposed} most=${largestSum(rule)} label="after" />
    `,
  },
  {
    label: 'Now',
    kind: 'number',
    cell: ({ now }) => html`<${Rejected} hits=${now} />`,
  },
  {
    label: 'After',
    kind: 'number',
    cell: ({ proposed }) => html`<${Rejected} hits=${proposed} />`,
  },
  {
    label: 'Change',
    kind: 'number',
    cell: ({ now, proposed }) => formatChange(proposed.refused - now.refused),
    style: ({ now, proposed }) => (proposed.refused > now.refused ? 'rejected' : ''),
  },
]

interface BarProps {
  readonly share: Rule['now']
  readonly most: number
  readonly label: string
}

/** The row has the numbers as text, so screen readers skip the bar. */
function Bar({ share, most, label }: BarProps) {
  const percent = (hits: number) => `${(hits / most) * 100}%`
  return html`<div class="bar" aria-hidden="true">
    <span>${label}</span>
    <svg>
      <rect class="allowed" width=${percent(share.allowed)} height="100%" />
      <rect class="rejected" x=${percent(share.allowed)} width=${percent(share.refused)} height="100%" />
    </svg>
  </div>`
}

const maxKeys = 20

const keyColumns: readonly Column<Key>[] = [
  { label: 'Key', cell: ({ entries }) => displayEntries(entries) },
  { label: 'Hits', kind: 'number', cell: ({ hits }) => formatCount(hits) },
  { label: 'Rejected now', kind: 'number', cell: ({ refusedNow }) => formatCount(refusedNow) },
  {
    label: 'Rejected after',
    kind: 'number',
    cell: ({ refusedProposed }) => formatCount(refusedProposed),
  },
  {
    label: 'Change',
    kind: 'number',
    cell: ({ refusedNow, refusedProposed }) => formatChange(refusedProposed - refusedNow),
    style: ({ refusedNow, refusedProposed }) => (refusedProposed > refusedNow ? 'rejected' : ''),
  },
]
