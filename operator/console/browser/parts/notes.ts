import type { ComponentChildren } from 'preact'
import { CallError } from '../calls/api.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'

const maxMessage = 400

/** An error of a call, in words for people. */
export function ErrorNote({ error }: { readonly error: unknown }) {
  if (error === undefined) return null
  const isForbidden = error instanceof CallError && error.status === 403
  const message = error instanceof Error ? error.message : `${error}`
  return html`<p class="note ${isForbidden ? 'warning' : 'error'}" role="alert">
    ${isForbidden ? 'You do not have this right. ' : ''}${displayText(message, maxMessage)}
  </p>`
}

/** The note of a list without rows. */
export const Empty = ({ children }: { readonly children?: ComponentChildren }) =>
  html`<p class="empty">${children}</p>`

export type Tone = 'good' | 'warning' | 'error' | 'quiet'

/** A state as a word with a colored dot. */
export const State = ({ tone, children }: { readonly tone: Tone; readonly children?: ComponentChildren }) =>
  html`<span class="state ${tone}">${children}</span>`
