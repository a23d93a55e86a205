import type { MerchantList } from '../../../api/shapes.ts'
import { inScope } from '../calls/session.ts'
import { usePages } from '../calls/use-pages.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { LastVerifyCard } from '../parts/last-verify.ts'
import { Empty, ErrorNote, Loading } from '../parts/notes.ts'
import { MerchantsTable } from '../tables/merchant-table.ts'

const everyMs = 2_000
const none =
  () => html`There is no Merchant. Apply one, such as <code>examples/payments/bakery.yaml</code>. Its
  credentials and balances are shown here.`

export function MerchantsPage() {
  const { answer, problem } = usePages<MerchantList>('/merchants', inScope.value, everyMs)
  return html`
    <${ErrorNote} error=${problem} />
    ${answer === undefined && problem === undefined && html`<${Loading} />`}
    ${answer?.items.length === 0 && html`<${Empty}>${none()}<//>`}
    ${
      answer &&
      answer.booksProblem !== '' &&
      html`<p class="note warning">Balances are unknown: ${displayText(answer.booksProblem)}</p>`
    }
    ${answer && answer.items.length > 0 && html`<${MerchantsTable} list=${answer} />`}
    ${answer?.booksProblem === '' && html`<${LastVerifyCard} verify=${answer.lastVerify} />`}
  `
}
