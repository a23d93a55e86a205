import { computed, signal } from '@preact/signals'
import type { RightList } from '../../../api/shapes.ts'

/** `unknown` until the first answer; `login` when the API wants a token. */
type Access = 'unknown' | 'open' | 'login'

/** The bearer token. It is kept in this variable only, so that it ends with the page. */
let token: string | undefined

export const access = signal<Access>('unknown')
/** Whether a token was given. The console of one machine needs none. */
export const isLoggedIn = signal(false)
/** Why the last token was not accepted; empty if there was none. */
export const loginProblem = signal('')
/** The time of the last answer, and why there has been none since; empty while the operator answers. */
export const lastAnswerMs = signal(0)
export const outage = signal('')

/** The namespace of lists; empty for all. A user may have rights in one namespace only. */
export const namespace = signal('')
/** The parameters of lists. */
export const inScope = computed(() => (namespace.value === '' ? {} : { namespace: namespace.value }))

/** The domains whose counters this user may not change, as far as the API has said. */
export const readOnlyDomains = signal<ReadonlySet<string>>(new Set())

export function markReadOnly(domain: string): void {
  readOnlyDomains.value = new Set([...readOnlyDomains.value, domain])
}

export function logIn(given: string): void {
  token = given.trim()
  isLoggedIn.value = true
  loginProblem.value = ''
  access.value = 'unknown'
  readOnlyDomains.value = new Set()
}

/** Loads the page again, so that nothing of the user is left in its memory. */
export const logOut = () => location.reload()

export function authorization(): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

/** Records that the API rejected the token, or the lack of one. */
export function rejectLogin(message: string): void {
  // Several calls may be rejected with one token.
  if (token !== undefined) loginProblem.value = message
  token = undefined
  isLoggedIn.value = false
  access.value = 'login'
}

/** Whether the user has a right. No, as long as the rights are not known. */
export function hasRight(list: RightList | undefined, verb: string, resource: string): boolean {
  return (
    list?.rights.some(right => right.verb === verb && right.resource === resource && right.allowed) ?? false
  )
}
