import { merchantName, type PaymentLink, toQuery } from '../link.ts'
import { formatPayment } from '../texts/money-text.ts'
import { textsFor } from '../texts/texts.ts'
import { html } from './html.ts'
import { layOut } from './layout.ts'

interface ChallengePage {
  /** The token with the state of the attempt, which the answer continues. */
  readonly token: string
  readonly card: string
}

/** Renders a page in place of the payer's bank, which asks the payer to confirm the payment (3-D Secure). */
export function challengePage(link: PaymentLink, { token, card }: ChallengePage): string {
  const { challenge: texts } = textsFor(link.locale)
  const { merchant, locale } = link
  const main = html`<div class="sheet narrow">
<section class="details bank">
<p class="bank-name">${bankIcon} ${texts.bank}</p>
<h1>${texts.heading}</h1>
<dl>
<div><dt>${texts.shop}</dt><dd>${merchantName(merchant)}</dd></div>
<div><dt>${texts.amount}</dt><dd>${formatPayment(link, locale)}</dd></div>
<div><dt>${texts.card}</dt><dd>${card}</dd></div>
</dl>
<form method="post" action="./confirm${toQuery(link)}" data-once="${texts.working}">
<input type="hidden" name="ticket" value="${token}">
<button type="submit" class="primary" name="answer" value="yes">${texts.confirm}</button>
<button type="submit" class="secondary" name="answer" value="no">${texts.reject}</button>
</form>
<p class="note">${texts.explanation}</p>
</section>
</div>`
  return layOut({ locale, title: texts.title, shop: merchantName(merchant), isTest: merchant.test, main })
}

const bankIcon = html`<svg class="bank-icon" viewBox="0 0 24 24" aria-hidden="true">
<path d="M12 3 3 8v2h18V8zM5 11h2v6H5zm6 0h2v6h-2zm6 0h2v6h-2zM3 18h18v2H3z"/></svg>`
