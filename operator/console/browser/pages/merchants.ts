import type { MerchantList } from '../../../api/shapes.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { Empty, ErrorNote, State } from '../parts/notes.ts'

const everyMs = 2_000
const page = { limit: 200 }

/** The merchants with the state of their credentials. No answer of the API has a secret. */
export function MerchantsPage() {
  const { answer, problem } = usePoll<MerchantList>('/merchants', page, everyMs)
  return html`
    <${ErrorNote} error=${problem} />
    ${answer?.items.length === 0 && html`<${Empty}>There is no Merchant.<//>`}
    ${answer && answer.items.length > 0 && html`<${Table} list=${answer} />`}
  `
}

function Table({ list }: { readonly list: MerchantList }) {
  return html`<div class="scroll" role="region" aria-label="Merchants" tabindex="0">
    <table>
      <caption>Merchants</caption>
      <thead>
        <tr>
          <th scope="col">Resource</th>
          <th scope="col">Subject</th>
          <th scope="col">State</th>
          <th scope="col">Credentials</th>
          <th scope="col">Details</th>
        </tr>
      </thead>
      <tbody>
        ${list.items.map(
          ({
            namespace,
            name,
            subject,
            details,
            credentials,
            conditions,
          }) => html`<tr key=${`${namespace}/${name}`}>
            <th scope="row">${displayText(`${namespace}/${name}`)}</th>
            <td>${displayText(subject)}</td>
            <td><${ReadyState} conditions=${conditions} /></td>
            <td>
              <${State} tone=${credentials.ready ? 'good' : 'error'}>
                ${credentials.ready ? 'ready' : credentials.reason}
              <//>
              <p class="fine">${displayText(credentials.message, maxMessage)}</p>
            </td>
            <td>
              <dl class="conditions">
                ${Object.entries(details).map(
                  ([key, value]) => html`<dt>${displayText(key)}</dt>
                    <dd>${displayText(value)}</dd>`,
                )}
              </dl>
              <${ConditionList} conditions=${conditions} />
            </td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

const maxMessage = 400
