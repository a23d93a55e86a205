import type { ComponentChildren } from 'preact'
import { ApiError, type ApiProblem } from '../calls/api.ts'
import { isLoggedIn, namespace } from '../calls/session.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo } from '../data/route.ts'

const maxMessage = 400
const chooseNamespace = 'If you have it in one namespace, choose that above.'

/** An error of a call, in words for people. */
export function ErrorNote({ error }: { readonly error: unknown }) {
  if (error === undefined) return null
  const message = displayText(error instanceof Error ? error.message : `${error}`, maxMessage)
  if (!(error instanceof ApiError && error.status === 403))
    return html`<p class="note error" role="alert">${message}</p>`
  const canChoose = isLoggedIn.value && namespace.value === ''
  return html`<p class="note warning" role="alert">
    You do not have this right. ${message}${canChoose && `. ${chooseNamespace}`}
  </p>`
}

/**
 * The errors of several calls in one note for rights and one for everything else, each message once: a user
 * may lack the right to several kinds.
 */
export function ErrorNotes({ errors }: { readonly errors: readonly (ApiError | undefined)[] }) {
  const found = errors.filter(error => error !== undefined)
  const [forbidden, others] = [found.filter(isForbidden), found.filter(error => !isForbidden(error))]
  return [forbidden, others].map(some => {
    const [first] = some
    if (first === undefined) return null
    const { status, code } = first
    const message = [...new Set(some.map(error => error.message))].join('; ')
    return html`<${ErrorNote} error=${new ApiError(status, code, message)} />`
  })
}

const isForbidden = ({ status }: ApiError) => status === 403

/** How to see what a list of resources leaves out. */
export const howToListAll = () =>
  isLoggedIn.value
    ? 'Choose a namespace above, or read all with kubectl tollway status.'
    : 'tollway status lists all.'

/** The note of a list without rows. It says what to do. */
export const Empty = ({ children }: { readonly children?: ComponentChildren }) =>
  html`<p class="empty">${children}</p>`

/** The note while the first answer is awaited. */
export const Loading = () => html`<${Empty}>Asking the operator …<//>`

/** The note beside keys that are hashes. */
export const HashedNote = () => html`<p class="fine">
  Values are hashes, because DECISION_KEYS_HASHED=true hides them. A hash is not the key of a counter: to read
  one, enter the entries as Envoy sends them.
</p>`

/** The note where a RateLimitConfig is missing. */
export const NoDomain = () => html`<${Empty}>
  No domain is in force. Apply a RateLimitConfig, or <a href=${linkTo('what-if', { new: '1' })}>write one</a>.
<//>`

type Tone = 'good' | 'warning' | 'error' | 'quiet'

/** A state as a word with a colored dot. */
export const State = ({ tone, children }: { readonly tone: Tone; readonly children?: ComponentChildren }) =>
  html`<span class="state ${tone}">${children}</span>`

interface FieldListProps {
  readonly style: string
  readonly label?: string
  /** With the line in the text, from 1, if that is known. */
  readonly items: readonly (ApiProblem & { readonly line?: number | undefined })[]
}

/** Problems or warnings of fields, one a line. */
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
