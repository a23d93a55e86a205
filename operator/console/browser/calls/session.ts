import { computed, signal } from '@preact/signals'
import type { RightList } from '../../../api/shapes.ts'

/** `unknown` until the first answer; `login` when the API requires a token. */
type Access = 'unknown' | 'open' | 'login'

/** The bearer token. It is only in this variable, so that it ends with the page. */
let token: string | undefined

export const access = signal<Access>('unknown')
/** Whether the user has entered a token. One machine requires none. */
export const isLoggedIn = signal(false)
/** Why the last token was rejected; empty if none was. */
export const loginProblem = signal('')
/** The time of the last answer; 0 before the first one. */
export const lastAnswerMs = signal(0)
/** Why the operator does not answer; empty while it does. */
export const outage = signal('')

/** The namespace of lists; empty for all. A user can have rights in one namespace only. */
export const namespace = signal('')
/** The parameters of each list: the namespace, if one is chosen. */
export const inScope = computed(() => (namespace.value === '' ? {} : { namespace: namespace.value }))

/** The domains for which the API has rejected a change of a counter by this user. */
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

/** Reloads the page, which removes the data of the user from its memory. */
export const logOut = () => location.reload()

export function authorization(): Readonly<Record<string, string>> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

/** Shows the login after the API has rejected the token, or a call without one. */
export function rejectLogin(message: string): void {
  // Several calls can be rejected; only the first one had the token.
  if (token !== undefined) loginProblem.value = message
  token = undefined
  isLoggedIn.value = false
  access.value = 'login'
}

/** Whether the user has a right; false while the rights are unknown. */
export function hasRight(list: RightList | undefined, verb: string, resource: string): boolean {
  return (
    list?.rights.some(right => right.verb === verb && right.resource === resource && right.allowed) ?? false
  )
}
