import { hasAmount, hostOf, type Link, nameOf } from './link.ts'
import { formatMoney } from './texts/money-text.ts'
import { textsOf } from './texts/texts.ts'
import { html, type Markup } from './views/html.ts'

/** Longer ones are smaller, so that they fit a phone of 320 pixels in one line. */
const maxLargeCharacters = 13

function amountOf(text: string): Markup {
  return text.length > maxLargeCharacters
    ? html`<p class="amount long">${text}</p>`
    : html`<p class="amount">${text}</p>`
}

/** Returns the payee, the amount and the purpose of a link. */
export function linkSummary(link: Link): Markup {
  const texts = textsOf(link.locale)
  const { merchant, text, reference } = link
  const name = nameOf(merchant)
  const host = hostOf(merchant)
  return html`<section class="summary" aria-labelledby="shop">
<p class="pay-to">${texts.payTo}</p>
<p class="shop" id="shop">${name}</p>
${host !== name && html`<p class="host">${host}</p>`}
${hasAmount(link) && amountOf(formatMoney(link, link.locale))}
${text !== null && html`<p class="text">${text}</p>`}
${reference !== null && html`<p class="reference"><span>${texts.reference}</span> ${reference}</p>`}
</section>`
}
