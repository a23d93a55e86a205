import type { Locale } from '../../domain/input/request-bodies.ts'
import type { FieldError } from '../../domain/rejections.ts'
import { type PaymentLink, toQuery } from '../link.ts'
import { type PageProblem, textsFor } from '../texts/texts.ts'
import { html, type Markup } from './html.ts'
import { layOut } from './layout.ts'

export interface ProblemPage {
  readonly locale: Locale
  /** The errors in the link, for its author. */
  readonly details?: readonly FieldError[]
  /** The address of a link with which the payer starts again; missing for no such link. */
  readonly startOver?: string
  readonly base?: string
}

export function problemPage(
  problem: PageProblem,
  { locale, details = [], startOver, base = './' }: ProblemPage,
): string {
  const { problems, forMerchant, declined } = textsFor(locale)
  const { title, text } = problems[problem]
  const main = html`<div class="sheet narrow">
<section class="details outcome">
<h1>${title}</h1>
<p class="explanation">${text}</p>
${startOver !== undefined && html`<a class="primary" href="${startOver}">${declined.tryAgain}</a>`}
${details.length > 0 && forShop(forMerchant, details)}
</section>
</div>`
  return layOut({ locale, title, base, main })
}

function forShop(title: string, details: readonly FieldError[]): Markup {
  const items = details.map(({ field, message }) => html`<li><code>${field}</code> ${message}</li>`)
  return html`<details><summary>${title}</summary><ul lang="en">${items}</ul></details>`
}

/** The button asks again with the same token, which never makes a second payment. */
export function unknownOutcomePage(link: PaymentLink, token: string): string {
  const { problems, reloadOutcome, challenge } = textsFor(link.locale)
  const { title, text } = problems['outcome-unknown']
  const main = html`<div class="sheet narrow">
<section class="details outcome">
<h1>${title}</h1>
<p class="explanation">${text}</p>
<form method="post" action="./confirm${toQuery(link)}" data-once="${challenge.working}">
<input type="hidden" name="ticket" value="${token}">
<button type="submit" class="primary" name="answer" value="again">${reloadOutcome}</button>
</form>
</section>
</div>`
  return layOut({ locale: link.locale, title, isTest: link.merchant.test, main })
}
