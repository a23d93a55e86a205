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
import { CallError, fetchJson, postJson } from '../calls/api.ts'
import { hasRight, markReadOnly, readOnlyDomains } from '../calls/session.ts'
import { usePoll } from '../calls/use-poll.ts'
import { displayEntries, displayText, formatAge, formatCount } from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'
import { ConfirmDialog } from './confirm-dialog.ts'
import { CopiedText } from './copied-text.ts'
import { ErrorNote } from './notes.ts'

/** The entries of the shown counter, as the user writes them. */
export const chosenEntries = signal('')

type Change = { readonly action: 'reset' } | { readonly action: 'raise'; readonly by: number }

interface KeyCounterProps {
  readonly domain: string
  /** The namespace of the resource of the domain; undefined if it is unknown. */
  readonly namespace: string | undefined
}

/** The API caches the rights of a user for 10 s. */
const rightsMs = 10_000

export function KeyCounter({ domain, namespace }: KeyCounterProps) {
  const { answer: list } = usePoll<RightList>('/rights', { namespace }, rightsMs)
  const isReadOnly =
    readOnlyDomains.value.has(domain) || !hasRight(list, 'update', 'ratelimitconfigs/counters')
  const counter = useSignal<CounterAnswer | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const done = useSignal('')
  const pending = useSignal<{ readonly change: Change; readonly count: number } | undefined>(undefined)
  const dialogs = useRef(0)

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
      const entries = readEntriesField(chosenEntries.value)
      const parameters = { domain, descriptor: formatDescriptorParameters(entries) }
      counter.value = await fetchJson<CounterAnswer>('/counters', { parameters })
    })

  const apply = (entries: readonly DescriptorEntry[], change: Change) =>
    attempt(async () => {
      pending.value = undefined
      const by = change.action === 'raise' ? { by: change.by } : {}
      const answer = await changeCounter(change.action, { domain, entries: [...entries], ...by })
      counter.value = answer
      done.value = describeChange(answer, change)
    })

  useEffect(() => {
    if (chosenEntries.value !== '') void read()
  }, [chosenEntries.value])

  const ask = (change: Change) => {
    dialogs.current += 1
    pending.value = { change, count: dialogs.current }
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
      pending.value &&
      html`<${Confirmation}
        key=${pending.value.count}
        counter=${shown}
        change=${pending.value.change}
        onConfirm=${(change: Change) => apply(shown.entries, change)}
        onCancel=${() => {
          pending.value = undefined
        }}
      />`
    }
  </section>`
}

/** If the API rejects a change because the user has lost the right, the buttons are hidden. */
async function changeCounter(action: Change['action'], body: ResetBody | RaiseBody) {
  try {
    return await postJson<CounterChangeAnswer>(`/counters/${action}`, body)
  } catch (error) {
    if (error instanceof CallError && error.status === 403) markReadOnly(body.domain)
    throw error
  }
}

/** Parses the entries of a descriptor. @throws Error with the invalid part */
export function readEntriesField(text: string): readonly DescriptorEntry[] {
  const entries = parseDescriptorEntries(text)
  if (typeof entries === 'string') throw new Error(entries)
  return entries
}

function describeChange({ confirmed, missing }: CounterChangeAnswer, { action }: Change): string {
  const what = action === 'reset' ? 'The counter is 0.' : 'The hits are granted.'
  const late =
    missing.length === 0 ? '' : ` Not confirmed by ${missing.map(pod => displayText(pod)).join(', ')}.`
  return `${what} Confirmed by ${confirmed.length} ${confirmed.length === 1 ? 'pod' : 'pods'}.${late}`
}

function EntriesForm({ onRead }: { readonly onRead: () => void }) {
  const text = useSignal(chosenEntries.value)
  // A later effect would overwrite what the user has typed.
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
        text.value = fieldValue(event)
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
      <div><dt>Remaining</dt><dd class=${remaining === 0 ? 'rejected' : ''}>${formatCount(remaining)}</dd></div>
      <div><dt>Resets in</dt><dd>${formatAge(reset * 1000)}</dd></div>
    </dl>
    <p class="fine">Rule <code>${displayText(rule)}</code>, key <${CopiedText} text=${key} name="key" /></p>
    ${absent !== '' && html`<p class="note warning">No answer from ${absent}.</p>`}`
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
          by.value = Number(fieldValue(event))
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
    ? 'The hits of the current window are removed from the backend and from all pods.'
    : 'They are valid until the window ends.'
  const props = { title, action: isReset ? 'Reset' : 'Raise', onCancel, onConfirm: () => onConfirm(change) }
  return html`<${ConfirmDialog} ...${props}>
    <p><code>${displayEntries(counter.entries)}</code> of ${displayText(counter.domain)}. ${effect}</p>
  <//>`
}
