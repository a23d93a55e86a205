import { signal, useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import {
  type DescriptorEntry,
  formatDescriptorParameters,
  parseDescriptorEntries,
} from '../../../api/entries.ts'
import type {
  CounterAnswer,
  CounterChangeAnswer,
  RaiseBody,
  ResetBody,
  RightList,
} from '../../../api/shapes.ts'
import { ApiError, fetchJson, postJson } from '../calls/api.ts'
import { hasRight, markReadOnly, readOnlyDomains } from '../calls/session.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayEntries, displayText, formatAge, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConfirmDialog } from './confirm-dialog.ts'
import { CopiedText } from './copied-text.ts'
import { ErrorNote } from './notes.ts'

/** The entries of the counter that is shown, as a person writes them. */
export const chosenEntries = signal('')

type Change = { readonly action: 'reset' } | { readonly action: 'raise'; readonly by: number }

interface KeyCounterProps {
  readonly domain: string
  /** That of the resource of the domain; undefined if it is not known. */
  readonly namespace: string | undefined
}

/** The API keeps answers of the cluster about rights for 10 s. */
const rightsMs = 10_000

/** Reads the counter of one key, and changes it after a confirmation. */
export function KeyCounter({ domain, namespace }: KeyCounterProps) {
  const { answer: list } = usePoll<RightList>('/rights', { namespace }, rightsMs)
  const isReadOnly =
    readOnlyDomains.value.has(domain) || !hasRight(list, 'update', 'ratelimitconfigs/counters')
  const counter = useSignal<CounterAnswer | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const done = useSignal('')
  const asked = useSignal<{ readonly change: Change; readonly count: number } | undefined>(undefined)
  const asks = useRef(0)

  async function attempt(task: () => Promise<void>): Promise<void> {
    problem.value = undefined
    done.value = ''
    try {
      await task()
    } catch (error) {
      problem.value = error
    }
  }

  const read = () =>
    attempt(async () => {
      counter.value = undefined
      const entries = requireEntries(chosenEntries.value)
      const parameters = { domain, descriptor: formatDescriptorParameters(entries) }
      counter.value = await fetchJson<CounterAnswer>('/counters', { parameters })
    })

  const apply = (entries: readonly DescriptorEntry[], change: Change) =>
    attempt(async () => {
      asked.value = undefined
      const by = change.action === 'raise' ? { by: change.by } : {}
      const answer = await changeCounter(change.action, { domain, entries: [...entries], ...by })
      counter.value = answer
      done.value = describeChange(answer, change)
    })

  useEffect(() => {
    if (chosenEntries.value !== '') void read()
  }, [chosenEntries.value])

  const ask = (change: Change) => {
    asks.current += 1
    asked.value = { change, count: asks.current }
  }
  const shown = counter.value
  return html`<section class="card" aria-labelledby="counter">
    <h2 id="counter">Counter of one key</h2>
    <${EntriesForm} onRead=${read} />
    <${ErrorNote} error=${problem.value} />
    <p role="status" class="done">${done.value}</p>
    ${
      shown &&
      html`<${Values} counter=${shown} />
        ${!isReadOnly && html`<${Changes} onAsk=${ask} />`}`
    }
    ${
      shown &&
      asked.value &&
      html`<${Confirmation}
        key=${asked.value.count}
        counter=${shown}
        change=${asked.value.change}
        onConfirm=${(change: Change) => apply(shown.entries, change)}
        onCancel=${() => {
          asked.value = undefined
        }}
      />`
    }
  </section>`
}

/** A user who has lost the right gets 403 once, and then no button. */
async function changeCounter(action: Change['action'], body: ResetBody | RaiseBody) {
  try {
    return await postJson<CounterChangeAnswer>(`/counters/${action}`, body)
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) markReadOnly(body.domain)
    throw error
  }
}

/** @throws Error that names what is wrong */
function requireEntries(text: string): readonly DescriptorEntry[] {
  const entries = parseDescriptorEntries(text)
  if (typeof entries === 'string') throw new Error(entries)
  return entries
}

function describeChange({ confirmed, missing }: CounterChangeAnswer, { action }: Change): string {
  const what = action === 'reset' ? 'The counter is 0.' : 'The hits are granted.'
  const late =
    missing.length === 0 ? '' : ` No confirmation of ${missing.map(pod => displayText(pod)).join(', ')}.`
  return `${what} Confirmed by ${confirmed.length} ${confirmed.length === 1 ? 'pod' : 'pods'}.${late}`
}

function EntriesForm({ onRead }: { readonly onRead: () => void }) {
  const text = useSignal(chosenEntries.value)
  // Before the field can be seen: a later effect would drop what a person has typed already.
  useLayoutEffect(() => {
    text.value = chosenEntries.value
  }, [chosenEntries.value])
  const submit = (event: Event) => {
    event.preventDefault()
    if (chosenEntries.value === text.value) onRead()
    chosenEntries.value = text.value
  }
  return html`<form class="line" onSubmit=${submit}>
    <label for="entries">Entries</label>
    <input id="entries" autocomplete="off" spellcheck=${false} value=${text.value}
      placeholder="user=alice, path=/pay"
      onInput=${(event: Event) => {
        text.value = (event.target as HTMLInputElement).value
      }} />
    <button type="submit">Read</button>
  </form>`
}

function Values({ counter }: { readonly counter: CounterAnswer }) {
  const { value, limit, remaining, reset, rule, key, missing } = counter
  const absent = missing.map(pod => displayText(pod)).join(', ')
  return html`<dl class="values">
      <div><dt>Value</dt><dd>${formatCount(value)}</dd></div>
      <div><dt>Limit</dt><dd>${formatCount(limit)}</dd></div>
      <div><dt>Left</dt><dd class=${remaining === 0 ? 'rejected' : ''}>${formatCount(remaining)}</dd></div>
      <div><dt>Ends in</dt><dd>${formatAge(reset * 1000)}</dd></div>
    </dl>
    <p class="fine">Rule <code>${displayText(rule)}</code>, key <${CopiedText} text=${key} name="key" /></p>
    ${absent !== '' && html`<p class="note warning">Without ${absent}.</p>`}`
}

const firstRaise = 10

function Changes({ onAsk }: { readonly onAsk: (change: Change) => void }) {
  const by = useSignal(firstRaise)
  return html`<p class="buttons">
    <button type="button" onClick=${() => onAsk({ action: 'reset' })}>Reset …</button>
    <span class="line">
      <label for="by-hits">Hits</label>
      <input id="by-hits" type="number" min="1" max="4294967295" value=${by.value}
        onInput=${(event: Event) => {
          by.value = Number((event.target as HTMLInputElement).value)
        }} />
      <button type="button" onClick=${() => onAsk({ action: 'raise', by: by.value })}>Raise …</button>
    </span>
  </p>`
}

interface ConfirmationProps {
  readonly counter: CounterAnswer
  readonly change: Change
  readonly onConfirm: (change: Change) => void
  readonly onCancel: () => void
}

function Confirmation({ counter, change, onConfirm, onCancel }: ConfirmationProps) {
  const isReset = change.action === 'reset'
  const title = isReset ? 'Reset this counter?' : `Grant ${formatCount(change.by)} more hits?`
  const effect = isReset
    ? 'Its hits of the window are forgotten in the backend and in all pods.'
    : 'They last until the window ends.'
  const props = { title, action: isReset ? 'Reset' : 'Raise', onCancel, onConfirm: () => onConfirm(change) }
  return html`<${ConfirmDialog} ...${props}>
    <p><code>${displayEntries(counter.entries)}</code> of ${displayText(counter.domain)}. ${effect}</p>
  <//>`
}
