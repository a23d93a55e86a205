import type { ComponentChildren } from 'preact'
import { type ApiProblem, CallError } from '../calls/api.ts'
import { isLoggedIn, namespace } from '../calls/session.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'

const maxMessage = 400
const chooseNamespace = 'If you have the right in one namespace, choose the namespace above.'

/** Shows the error of a call; nothing for undefined. */
export function ErrorNote({ error }: { readonly error: unknown }) {
  if (error === undefined) return null
  const message = displayText(error instanceof Error ? error.message : `${error}`, maxMessage)
  if (!(error instanceof CallError && error.status === 403))
    return html`<p class="note error" role="alert">${message}</p>`
  const canChoose = isLoggedIn.value && namespace.value === ''
  return html`<p class="note warning" role="alert">
    Permission denied: ${message}${canChoose && `. ${chooseNamespace}`}
  </p>`
}

/**
 * Shows one note for missing rights, since a user can lack the rights for several kinds, and one for other
 * errors.
 */
export function ErrorNotes({ errors }: { readonly errors: readonly (CallError | undefined)[] }) {
  const found = errors.filter(error => error !== undefined)
  const [forbidden, others] = [found.filter(isForbidden), found.filter(error => !isForbidden(error))]
  return [forbidden, others].map(some => {
    const [first] = some
    if (first === undefined) return null
    const { status, code } = first
    const message = [...new Set(some.map(error => error.message))].join('; ')
    return html`<${ErrorNote} error=${new CallError(status, code, message)} />`
  })
}

const isForbidden = ({ status }: CallError) => status === 403

export const howToListAll = () =>
  isLoggedIn.value
    ? 'Choose a namespace above, or list all with kubectl tollway status.'
    : 'tollway status lists all.'

export const Empty = ({ children }: { readonly children?: ComponentChildren }) =>
  html`<p class="empty">${children}</p>`

export const Loading = () => html`<${Empty}>Loading …<//>`

export const HashedNote = () => html`<p class="fine">
  Values are hashed, because the rate limit service runs with DECISION_KEYS_HASHED=true. To read a counter, enter
  the entries as Envoy sends them: a hash is not a key.
</p>`

export const NoDomain = () => html`<${Empty}>
  No domain is in force. Apply a RateLimitConfig, or <a href=${linkTo('what-if', { new: '1' })}>write one</a>.
<//>`

type Tone = 'good' | 'warning' | 'error' | 'quiet'

export const State = ({ tone, children }: { readonly tone: Tone; readonly children?: ComponentChildren }) =>
  html`<span class="state ${tone}">${children}</span>`

interface FieldListProps {
  readonly style: string
  readonly label?: string
  /** `line` is the line in the text, from 1; undefined if it is unknown. */
  readonly items: readonly (ApiProblem & { readonly line?: number | undefined })[]
}

export function FieldList({ style, label = '', items }: FieldListProps) {
  if (items.length === 0) return null
  return html`<ul class=${style}>
    ${items.map(
      ({ field, message, line }) => html`<li>
        ${line !== undefined && html`<b>Line ${line}</b>${' '}`}${label}<code>${displayText(field)}</code>:${' '}
        ${displayText(message, maxMessage)}
      </li>`,
    )}
  </ul>`
}
