import { signal, useSignal } from '@preact/signals'
import { type Proposal, useWhatIf } from '../calls/use-what-if.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ApplyProposal } from '../parts/apply-proposal.ts'
import { Editor } from '../parts/editor.ts'
import { Empty, ErrorNote } from '../parts/notes.ts'
import { BeforeAfter } from '../tables/before-after.ts'

const template = `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata:
  namespace: shop
  name: checkout
spec:
  domain: checkout
  descriptors:
    - key: user
      rateLimit: {unit: minute, requestsPerUnit: 3}
`

/** The text stays while other pages are shown. */
const text = signal(template)

/** A proposed resource, its mistakes, and what recorded calls would have met with it. */
export function WhatIfPage() {
  const proposal = useWhatIf(text.value)
  const absent = proposal.state === 'asking' ? 'Replaying …' : 'There is no valid proposal.'
  return html`
    <p>
      Edit a RateLimitConfig. The calls that the pods have recorded are replayed with it; nothing is changed
      before you apply it.
    </p>
    <div class="split even">
      <section class="card" aria-label="Proposal">
        <${Editor} label="RateLimitConfig in YAML" text=${text.value} describedBy="mistakes"
          wrongLine=${proposal.line}
          onInput=${(given: string) => {
            text.value = given
          }} />
        <${Mistakes} proposal=${proposal} />
        ${proposal.state === 'answered' && html`<${ApplyProposal} text=${text.value} />`}
        <${Copy} />
      </section>
      <section class="card" aria-labelledby="picture">
        <h2 id="picture">Before and after</h2>
        <${ErrorNote} error=${proposal.error} />
        ${
          proposal.answer ? html`<${BeforeAfter} answer=${proposal.answer} />` : html`<${Empty}>${absent}<//>`
        }
      </section>
    </div>
  `
}

const maxMessage = 400

function Mistakes({ proposal }: { readonly proposal: Proposal }) {
  const { problems, state } = proposal
  return html`<div id="mistakes" role="status">
    ${state === 'answered' && html`<p class="done">The resource is valid.</p>`}
    ${
      problems.length > 0 &&
      html`<ul class="mistakes">
        ${problems.map(
          ({ field, message }) => html`<li>
            <code>${displayText(field)}</code>: ${displayText(message, maxMessage)}
          </li>`,
        )}
      </ul>`
    }
  </div>`
}

function Copy() {
  const said = useSignal('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text.value)
      said.value = 'Copied.'
    } catch {
      said.value = 'The browser does not allow it: select the text and copy it.'
    }
  }
  return html`<p class="buttons">
    <button type="button" onClick=${copy}>Copy</button>
    <span role="status" class="fine">${said.value}</span>
  </p>`
}
