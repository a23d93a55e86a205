import { useSignal } from '@preact/signals'
import type { TryAnswer } from '../../../api/shapes.ts'
import { postJson } from '../calls/api.ts'
import { displayText } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'
import { readEntriesField } from './key-counter.ts'
import { ErrorNote } from './notes.ts'

/** Shows which rule each descriptor of a request matches. The service counts no hits for it. */
export function TryRequest({ domain }: { readonly domain: string }) {
  const text = useSignal('')
  const answer = useSignal<TryAnswer | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const submit = async (event: Event) => {
    event.preventDefault()
    answer.value = undefined
    problem.value = undefined
    try {
      const descriptors = text.value.split('\n').filter(line => line.trim() !== '')
      answer.value = await postJson<TryAnswer>('/try', {
        domain,
        descriptors: descriptors.map(readEntriesField),
      })
    } catch (error) {
      problem.value = error
    }
  }
  return html`<section class="card" aria-labelledby="try">
    <h2 id="try">Try a request</h2>
    <form onSubmit=${submit}>
      <label for="descriptors">Descriptors, one a line</label>
      <textarea id="descriptors" rows="2" spellcheck=${false}
        placeholder="path=/pay,plan=free" value=${text.value}
        onInput=${(event: Event) => {
          text.value = fieldValue(event)
        }}></textarea>
      <button type="submit">Try</button>
    </form>
    <${ErrorNote} error=${problem.value} />
    <div role="status">
      ${answer.value?.descriptors.map(each => html`<${Descriptor} descriptor=${each} />`)}
    </div>
  </section>`
}

const maxReason = 300

function Descriptor({ descriptor }: { readonly descriptor: TryAnswer['descriptors'][number] }) {
  const { entries, result, details } = descriptor
  return html`<p><b>${displayText(result, maxReason)}</b></p>
    <ol class="fine">
      ${entries.map(
        ({ key, value, how, rule, reason, candidates = [] }) => html`<li>
          <code>${displayText(key)}=${displayText(value)}</code>: ${displayText(how)}
          ${rule !== undefined && ` by ${displayText(rule)}`}
          ${reason !== undefined && `, ${displayText(reason, maxReason)}`}
          ${
            candidates.length > 0 &&
            html`<ul>
              ${candidates.map(
                one => html`<li>
                  ${one.matches ? '+' : '-'} ${displayText(one.how)} ${displayText(one.rule)}:
                  ${` ${displayText(one.reason, maxReason)}`}
                </li>`,
              )}
            </ul>`
          }
        </li>`,
      )}
    </ol>
    ${details.map(detail => html`<p class="fine">${displayText(detail, maxReason)}</p>`)}`
}
