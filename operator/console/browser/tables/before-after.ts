import type { WhatIfAnswer } from '../../../api/shapes.ts'
import { displayEntries, displayText, formatAge, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'

type Rule = WhatIfAnswer['rules'][number]

/** The decisions about the recorded calls, now and with the proposal. */
export function BeforeAfter({ answer }: { readonly answer: WhatIfAnswer }) {
  const { rules, keys, coverage } = answer
  const most = Math.max(1, ...rules.flatMap(({ now, proposed }) => [sum(now), sum(proposed)]))
  return html`
    <p class="fine"><${Coverage} coverage=${coverage} /></p>
    ${rules.length > 0 && html`<${RuleTable} rules=${rules} most=${most} />`}
    ${keys.length > 0 && html`<${KeyTable} keys=${keys} />`}
  `
}

const sum = ({ allowed, refused }: Rule['now']) => allowed + refused

function Coverage({ coverage }: Pick<WhatIfAnswer, 'coverage'>) {
  const { fromMs, recordedCalls, calls, share, pods, missing } = coverage
  if (fromMs === undefined) return 'No call of the domain is recorded yet.'
  const age = formatAge(Date.now() - fromMs)
  const of = `${formatCount(recordedCalls)} of ${formatCount(calls)} calls of the last ${age}`
  const absent = missing.length === 0 ? '' : ` Without ${missing.map(pod => displayText(pod)).join(', ')}.`
  const sampled = share === 1 ? '' : ` One of ${1 / share} keys is recorded, with all its calls.`
  return `Based on ${of}, recorded by ${pods} ${pods === 1 ? 'pod' : 'pods'}.${sampled}${absent}`
}

function RuleTable({ rules, most }: { readonly rules: readonly Rule[]; readonly most: number }) {
  return html`<div class="scroll" role="region" aria-label="Rules" tabindex="0">
    <table>
      <caption>Refused by rule, now and with the proposal</caption>
      <thead>
        <tr>
          <th scope="col">Rule</th>
          <th scope="col">Picture</th>
          <th scope="col" class="number">Refused now</th>
          <th scope="col" class="number">Refused then</th>
        </tr>
      </thead>
      <tbody>
        ${rules.map(
          ({ rule, now, proposed }) => html`<tr key=${rule}>
            <th scope="row">${displayText(rule)}</th>
            <td class="bars">
              <${Bar} share=${now} most=${most} label="now" />
              <${Bar} share=${proposed} most=${most} label="then" />
            </td>
            <td class="number">${formatCount(now.refused)} of ${formatCount(sum(now))}</td>
            <td class="number ${proposed.refused > now.refused ? 'refused' : ''}">
              ${formatCount(proposed.refused)} of ${formatCount(sum(proposed))}
            </td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

interface BarProps {
  readonly share: Rule['now']
  readonly most: number
  readonly label: string
}

/** Allowed hits, then refused ones. The numbers are in the row as text. */
function Bar({ share, most, label }: BarProps) {
  const percent = (hits: number) => `${(hits / most) * 100}%`
  return html`<div class="bar" aria-hidden="true">
    <span>${label}</span>
    <svg>
      <rect class="allowed" width=${percent(share.allowed)} height="100%" />
      <rect class="refused" x=${percent(share.allowed)} width=${percent(share.refused)} height="100%" />
    </svg>
  </div>`
}

const maxKeys = 20

function KeyTable({ keys }: Pick<WhatIfAnswer, 'keys'>) {
  return html`<div class="scroll" role="region" aria-label="Keys" tabindex="0">
    <table>
      <caption>Keys that change most</caption>
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col" class="number">Hits</th>
          <th scope="col" class="number">Refused now</th>
          <th scope="col" class="number">Refused then</th>
        </tr>
      </thead>
      <tbody>
        ${keys.slice(0, maxKeys).map(
          ({ entries, hits, refusedNow, refusedProposed }) => html`<tr>
            <th scope="row">${displayEntries(entries)}</th>
            <td class="number">${formatCount(hits)}</td>
            <td class="number">${formatCount(refusedNow)}</td>
            <td class="number">${formatCount(refusedProposed)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
