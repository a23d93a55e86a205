import { findTestCardByName } from '../../processor/test-cards.ts'
import { type CardErrors, type CardField, type CardFieldError, cardFields } from '../card-fields.ts'
import { linkSummary, merchantName, type PaymentLink, toQuery } from '../link.ts'
import { formatPayment } from '../texts/money-text.ts'
import { textsFor } from '../texts/texts.ts'
import { html, type Markup } from './html.ts'
import { layOut } from './layout.ts'

type CardTexts = ReturnType<typeof textsFor>['card']

export interface CardPage {
  /** The token with the idempotency key, so that a form that is submitted twice makes one payment. */
  readonly token: string
  readonly errors?: CardErrors
  /** A message above the form, which screen readers announce. */
  readonly message?: string
}

/** Renders the card form. It never contains card data that the payer entered before. */
export function cardPage(link: PaymentLink, { token, errors = {}, message }: CardPage): string {
  const { card } = textsFor(link.locale)
  const { merchant, locale, redirect, isPointOfSale } = link
  const back = toQuery(link, { amount: null, isPointOfSale: false })
  const main = html`<div class="sheet with-summary">
${linkSummary(link)}
<section class="details">
<h1>${card.heading}</h1>
<form method="post" action="./${toQuery(link)}" data-card data-once="${card.paying}"
  data-test="${merchant.test ? 'yes' : 'no'}" data-messages="${serialiseMessages(card)}">
<p class="form-message" id="form-message" role="alert">${message}</p>
<input type="hidden" name="token" value="${token}">
${fields(card, errors)}
<button type="submit" class="primary">${card.pay(formatPayment(link, locale))}</button>
</form>
<p class="note">${card.privacy}${redirect !== null && html` ${card.continuesTo(redirect.host)}`}</p>
${isPointOfSale && html`<p class="note"><a href="./${back}">${card.changeAmount}</a></p>`}
${merchant.test && testCards(card)}
</section>
</div>`
  const languageLink = (other: typeof locale) => `./${toQuery(link, { locale: other })}`
  return layOut({
    locale,
    title: card.title,
    shop: merchantName(merchant),
    isTest: merchant.test,
    languageLink,
    main,
  })
}

function serialiseMessages(card: CardTexts): string {
  return JSON.stringify({ ...card.errors, form: card.formError })
}

function fields(card: CardTexts, errors: CardErrors): Markup {
  const first = cardFields.find(name => errors[name] !== undefined)
  const state = (name: CardField) => fieldState(name, first === name, card, errors[name])
  const number = state('number')
  const expiry = state('expiry')
  const code = state('code')
  return html`<div class="field">
<label for="number">${card.number}</label>
<div class="with-scheme"><input id="number" name="number" inputmode="numeric" autocomplete="cc-number"
  maxlength="32" pattern="[0-9 \\-]{12,23}" ${number.attributes}>${schemes}</div>
<p class="hint" id="number-hint">${card.accepted}</p>
${number.error}
</div>
<div class="side-by-side">
<div class="field">
<label for="expiry">${card.expiry}</label>
<input id="expiry" name="expiry" inputmode="numeric" autocomplete="cc-exp"
  placeholder="${card.expiryPlaceholder}" maxlength="9"
  pattern="[0-9]{1,2} ?[\\/.\\-]? ?(20)?[0-9]{2}" ${expiry.attributes}>
<p class="hint" id="expiry-hint">${card.expiryHint}</p>
${expiry.error}
</div>
<div class="field">
<label for="code">${card.code}</label>
<input id="code" name="code" inputmode="numeric" autocomplete="cc-csc"
  maxlength="3" pattern="[0-9]{3}" ${code.attributes}>
<p class="hint" id="code-hint">${card.codeHint}</p>
${code.error}
</div>
</div>`
}

/** Returns the attributes of a field that depend on errors; the first input with an error gets the focus. */
function fieldState(name: CardField, isFirst: boolean, card: CardTexts, error: CardFieldError | undefined) {
  const isWrong = error !== undefined
  const focus = isFirst && html` autofocus`
  return {
    attributes: html`type="text" required autocapitalize="off" autocorrect="off" spellcheck="false"
  aria-describedby="${name}-hint ${name}-error"${isWrong && html` aria-invalid="true"`}${focus}`,
    error: html`<p class="error" id="${name}-error" aria-live="polite">${isWrong && card.errors[error]}</p>`,
  }
}

/** When the script knows the scheme of the number, only the icon of that scheme is shown. */
const schemes = html`<span class="schemes" data-scheme="" aria-hidden="true">
<svg class="visa" viewBox="0 0 38 24"><rect width="38" height="24" rx="4"/>
<text x="19" y="16.5">VISA</text></svg>
<svg class="mastercard" viewBox="0 0 38 24"><rect width="38" height="24" rx="4"/>
<circle cx="15" cy="12" r="7"/><circle cx="23" cy="12" r="7"/></svg>
</span>`

function testCards(card: CardTexts): Markup {
  const rows = Object.entries(card.testCardMeanings).map(
    ([name, meaning]) => html`<li><code>${findTestCardByName(name)?.number}</code> ${meaning}</li>`,
  )
  return html`<details class="test-cards"><summary>${card.testCards}</summary>
<ul>${rows}</ul><p>${card.testCardsNote}</p></details>`
}
