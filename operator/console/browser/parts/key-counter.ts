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
import {
  displayEntries,
  displayText,
  formatAge,
  formatCount,
  formatMoment,
  formatRate,
} from '../data/format.ts'
import { fieldValue, html } from '../data/html.ts'
import { type Column, showTable } from '../tables/data-table.ts'
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
        ${!isReadOnly && html`<${Changes} onAsk=${ask} />`}
        <${Reserved} counter=${shown} />
        <${Shares} counter=${shown} />`
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

function describeChange(counter: CounterChangeAnswer, { action }: Change): string {
  const { confirmed, missing } = counter
  const raised = isOfHolds(counter) ? 'The hits are released.' : 'The hits are granted.'
  const what = action === 'reset' ? 'The counter is 0.' : raised
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

const isOfHolds = ({ algorithm }: CounterAnswer) => algorithm === 'Concurrency'

function Values({ counter }: { readonly counter: CounterAnswer }) {
  const { value, limit, remaining, reset, rule, key, missing, reservations } = counter
  const { count = 0, summed = 0, amount = 0 } = reservations ?? {}
  const reserved = `${summed < count ? '≥ ' : ''}${formatCount(amount)}`
  const absent = missing.map(pod => displayText(pod)).join(', ')
  return html`<dl class="values">
      <div><dt>${isOfHolds(counter) ? 'Held' : 'Value'}</dt><dd>${formatCount(value)}</dd></div>
      ${count > 0 && html`<div><dt>Reserved</dt><dd>${reserved}</dd></div>`}
      <div><dt>Limit</dt><dd>${formatCount(limit)}</dd></div>
      <div><dt>Remaining</dt><dd class=${remaining === 0 ? 'rejected' : ''}>${formatCount(remaining)}</dd></div>
      <div><dt>${isOfHolds(counter) ? 'Room in' : 'Resets in'}</dt><dd>${formatAge(reset * 1000)}</dd></div>
    </dl>
    <p class="fine">Rule <code>${displayText(rule)}</code>, key <${CopiedText} text=${key} name="key" /></p>
    ${absent !== '' && html`<p class="note warning">No answer from ${absent}.</p>`}`
}

/** The number of reservations that are shown. */
const maxReservations = 20

/** Shows nothing if the pods do not tell what is reserved. */
function Reserved({ counter: { reservations, reservationsProblem } }: { readonly counter: CounterAnswer }) {
  if (reservationsProblem !== undefined)
    return html`<p class="note warning">The reservations could not be read: ${displayText(reservationsProblem)}.</p>`
  if (reservations === undefined) return null
  const { count, first } = reservations
  if (count === 0) return html`<p class="fine">Nothing is reserved.</p>`
  const items = first.slice(0, maxReservations)
  return showTable({
    title: `Reservations: ${formatCount(count)}`,
    items,
    rowKey: ({ id }) => id,
    columns: reservationColumns,
    hasMore: items.length < count,
    moreHint: 'tollway counters get lists 100.',
  })
}

type OpenReservation = NonNullable<CounterAnswer['reservations']>['first'][number]

const reservationColumns: readonly Column<OpenReservation>[] = [
  { label: 'Reservation', cell: ({ id }) => html`<${CopiedText} text=${id} name="id" />` },
  { label: 'Amount', kind: 'number', cell: ({ amount }) => formatCount(amount) },
  { label: 'Expires', cell: ({ expiresAtMs }) => formatMoment(expiresAtMs) },
]

/** The number of proxies that are shown. */
const maxProxies = 20

/** Shows who has what of a limit that proxies share; nothing for other limits. */
function Shares({ counter: { shares } }: { readonly counter: CounterAnswer }) {
  if (shares === undefined) return null
  const { limitPerSecond, wantedPerSecond, grantedPerSecond, memberCount, members, pods, missing, problem } =
    shares
  const shown = members.slice(0, maxProxies)
  const absent = missing.map(pod => displayText(pod)).join(', ')
  return html`<h3>Shares of proxies</h3>
    <dl class="values">
      <div><dt>Limit</dt><dd>${formatRate(limitPerSecond)}/s</dd></div>
      <div><dt>Wanted</dt><dd>${formatRate(wantedPerSecond)}/s</dd></div>
      <div><dt>Granted</dt><dd>${formatRate(grantedPerSecond)}/s</dd></div>
    </dl>
    ${absent !== '' && html`<p class="note warning">The proxies of ${absent} are not known.</p>`}
    ${problem !== undefined && html`<p class="note warning">The parts of the pods could not be read: ${displayText(problem)}.</p>`}
    ${
      memberCount === 0
        ? html`<p class="fine">No proxy reports this bucket.</p>`
        : showTable({
            title: `Proxies: ${formatCount(memberCount)}`,
            items: shown,
            rowKey: ({ name, pod }) => JSON.stringify([name, pod]),
            columns: proxyColumns,
            hasMore: shown.length < memberCount,
            moreHint: 'tollway counters get lists 100.',
          })
    }
    ${
      pods.length > 0 &&
      showTable({
        title: 'Parts of the pods',
        items: pods.slice(0, maxProxies),
        rowKey: ({ name }) => name,
        columns: podColumns,
        hasMore: pods.length > maxProxies,
        moreHint: 'tollway counters get lists 100.',
      })
    }`
}

type Share = NonNullable<CounterAnswer['shares']>['members'][number]

const shareColumns: readonly Column<Share>[] = [
  { label: 'Wanted/s', kind: 'number', cell: ({ wantedPerSecond }) => formatRate(wantedPerSecond) },
  { label: 'Granted/s', kind: 'number', cell: ({ grantedPerSecond }) => formatRate(grantedPerSecond) },
  { label: 'Expires in', kind: 'number', cell: ({ expiresInMs }) => formatAge(expiresInMs) },
]

const proxyColumns: readonly Column<Share>[] = [
  { label: 'Proxy', cell: ({ name }) => name },
  { label: 'Pod', cell: ({ pod }) => pod },
  ...shareColumns,
]

const podColumns: readonly Column<Share>[] = [
  { label: 'Pod', cell: ({ pod, name }) => (pod === '' ? `not connected: ${name}` : pod) },
  ...shareColumns,
]

const formatReservations = (count: number) =>
  `${formatCount(count)} ${count === 1 ? 'reservation' : 'reservations'}`

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
  const { title, effect } = isOfHolds(counter) ? describeRelease(change) : describeGrant(change)
  const reserved = counter.reservations?.count ?? 0
  const action = change.action === 'reset' ? 'Reset' : 'Raise'
  return html`<${ConfirmDialog} ...${{ title, action, onCancel, onConfirm: () => onConfirm(change) }}>
    <p><code>${displayEntries(counter.entries)}</code> of ${displayText(counter.domain)}. ${effect}</p>
    ${reserved > 0 && html`<p>Not ended: ${formatReservations(reserved)}.</p>`}
  <//>`
}

function describeGrant(change: Change) {
  if (change.action === 'raise') {
    const title = `Grant ${formatCount(change.by)} more hits?`
    return { title, effect: 'They are valid until the window ends.' }
  }
  const effect = 'The hits of the current window are removed from the backend and from all pods.'
  return { title: 'Reset this counter?', effect }
}

function describeRelease(change: Change) {
  const title =
    change.action === 'raise' ? `Release ${formatCount(change.by)} held hits?` : 'Release all holds?'
  return { title, effect: 'Requests that still run are no longer counted.' }
}
