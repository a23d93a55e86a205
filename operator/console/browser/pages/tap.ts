import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { DomainList, TapBatchEvent } from '../../../api/shapes.ts'
import { EventStream } from '../calls/event-stream.ts'
import { inScope } from '../calls/session.ts'
import { usePages } from '../calls/use-pages.ts'
import { displayText, formatCount } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'
import { route } from '../data/route.ts'
import { matches, TapBuffer, type TapDecision, type TapFilter } from '../data/tap-buffer.ts'
import { DomainChoice, DomainsNote } from '../parts/domain-choice.ts'
import { Empty, ErrorNote, HashedNote, State } from '../parts/notes.ts'
import { DecisionsTable } from '../tables/decision-table.ts'

const slowMs = 3_000

export function TapPage() {
  const domains = usePages<DomainList>('/domains', inScope.value, slowMs)
  const names = domains.answer?.items.map(({ domain }) => domain) ?? []
  const chosen = route.value.parameters['domain'] ?? names[0]
  if (chosen === undefined) return html`<${DomainsNote} ...${domains} />`
  return html`
    <${ErrorNote} error=${domains.problem} />
    <${DomainChoice} list=${domains.answer} chosen=${chosen} />
    <${Tap} key=${chosen} domain=${chosen} />
  `
}

function Tap({ domain }: { readonly domain: string }) {
  const filter = useSignal<TapFilter>({ text: '', isRejectedOnly: false })
  const isPaused = useSignal(false)
  const { decisions, skipped, hashed, stream } = useTap(domain, isPaused)
  const shown = decisions.filter(decision => matches(decision, filter.value))
  const problem = stream?.problem.value ?? ''
  const isLive = stream?.state.value === 'live'
  const absent =
    decisions.length > 0
      ? 'No decision matches the filter.'
      : html`No decision of ${displayText(domain)} yet. Decisions are shown with the next calls. Send one:${' '}
          <code>curl http://HOST:8080/json -d '${exampleCall(domain)}'</code>`
  const tone = isPaused.value ? 'quiet' : isLive ? 'good' : 'warning'
  return html`
    <form class="line" onSubmit=${(event: Event) => event.preventDefault()}>
      <label for="filter">Filter</label>
      <input id="filter" autocomplete="off" spellcheck=${false} value=${filter.value.text}
        placeholder="part of an entry, a rule, a reason or a pod"
        onInput=${(event: Event) => {
          filter.value = { ...filter.value, text: fieldValue(event) }
        }} />
      <label>
        <input type="checkbox" checked=${filter.value.isRejectedOnly} onChange=${(event: Event) => {
          filter.value = { ...filter.value, isRejectedOnly: (event.target as HTMLInputElement).checked }
        }} /> Only rejected
      </label>
      <button type="button" aria-pressed=${isPaused.value} onClick=${() => {
        isPaused.value = !isPaused.value
      }}>Pause</button>
    </form>
    <p class="facts">
      <${State} tone=${tone}>${isPaused.value ? 'paused' : isLive ? 'live' : 'connecting'}<//>
      <span>${formatCount(shown.length)} of ${formatCount(decisions.length)} decisions shown</span>
      ${skipped > 0 && html`<span>${formatCount(skipped)} not sampled in the last second</span>`}
    </p>
    ${problem !== '' && html`<${ErrorNote} error=${problem} />`}
    ${problem.includes('DECISION_TAP') && html`<p class="fine">${advice}</p>`}
    ${hashed && html`<${HashedNote} />`}
    ${shown.length === 0 && html`<${Empty}>${absent}<//>`}
    ${shown.length > 0 && html`<${DecisionsTable} decisions=${shown} />`}
  `
}

const exampleCall = (domain: string) =>
  `{"domain":${JSON.stringify(displayText(domain))},"descriptors":[{"entries":[{"key":"KEY","value":"VALUE"}]}]}`

const advice =
  'The tap is off, because keys can be personal data. Start the rate limit service with DECISION_TAP=true.'

interface TapState {
  readonly decisions: readonly TapDecision[]
  readonly skipped: number
  readonly hashed: boolean
  readonly stream: EventStream<TapBatchEvent> | undefined
}

/** Streams decisions, newest first. While it is paused, it drops them. */
function useTap(domain: string, isPaused: { readonly value: boolean }): TapState {
  const state = useSignal<TapState>({ decisions: [], skipped: 0, hashed: false, stream: undefined })
  const buffer = useRef(new TapBuffer())
  useEffect(() => {
    const stream = new EventStream<TapBatchEvent>('/tap', { domain }, ({ decisions, skipped, hashed }) => {
      if (isPaused.value) return
      state.value = { decisions: buffer.current.add(decisions), skipped, hashed, stream }
    })
    state.value = { decisions: [], skipped: 0, hashed: false, stream }
    return () => stream.close()
  }, [domain])
  return state.value
}
