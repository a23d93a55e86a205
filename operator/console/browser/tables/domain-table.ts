import type { DomainList } from '../../../api/shapes.ts'
import { displayText, formatCount, formatRate } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'
import { Empty } from '../parts/notes.ts'

/** Domains with their rates, each a link to its page. */
export function DomainTable({ list }: { readonly list: DomainList | undefined }) {
  if (list === undefined) return null
  if (list.items.length === 0) return html`<${Empty}>No domain is in force: apply a RateLimitConfig.<//>`
  return html`<div class="scroll" role="region" aria-label="Domains" tabindex="0">
    <table>
      <caption>Domains</caption>
      <thead>
        <tr>
          <th scope="col">Domain</th>
          <th scope="col">Resource</th>
          <th scope="col" class="number">Rules</th>
          <th scope="col" class="number">Calls/s</th>
          <th scope="col" class="number">Refused/s</th>
          <th scope="col" class="number">Allowed</th>
          <th scope="col" class="number">Refused</th>
        </tr>
      </thead>
      <tbody>
        ${list.items.map(item => html`<${DomainRow} key=${item.domain} item=${item} />`)}
      </tbody>
    </table>
    ${list.next !== undefined && html`<p class="more">More domains exist; tollway counters lists all.</p>`}
  </div>`
}

function DomainRow({ item }: { readonly item: DomainList['items'][number] }) {
  const { domain, owner, rules, callsPerSecond, refusalsPerSecond, allowed, refused } = item
  return html`<tr>
    <th scope="row"><a href=${linkTo('domain', { domain })}>${displayText(domain)}</a></th>
    <td>${owner === null ? 'none' : `${owner.namespace}/${owner.name}`}</td>
    <td class="number">${formatCount(rules)}</td>
    <td class="number">${formatRate(callsPerSecond)}</td>
    <td class="number ${refusalsPerSecond > 0 ? 'refused' : ''}">${formatRate(refusalsPerSecond)}</td>
    <td class="number">${formatCount(allowed)}</td>
    <td class="number">${formatCount(refused)}</td>
  </tr>`
}
