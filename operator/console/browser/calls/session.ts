import { computed, signal } from '@preact/signals'
import type { RightList } from '../../../api/shapes.ts'

/** `unknown` until the first answer; `login` when the API requires a token. */
type Access = 'unknown' | 'open' | 'login'

/** The bearer token. It is stored nowhere else, so that it is gone when the page is closed. */
let token: string | undefined

export const access = signal<Access>('unknown')
/** Whether the user has entered a token. An operator on one machine requires none. */
export const isLoggedIn = signal(false)
/** The reason why the last token was rejected; empty if no token was. */
export const loginProblem = signal('')
/** When the last answer arrived, as Unix time in milliseconds; 0 before the first one. */
export const lastAnswerMs = signal(0)
/** The reason why the operator does not answer; empty while it answers. */
export const outage = signal('')

/** The namespace of all lists; empty for all namespaces. A user may have rights in one namespace only. */
export const namespace = signal('')
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

/** Shows the login after the API has answered 401. */
export function rejectLogin(message: string): void {
  // When several calls are rejected, only the first finds the token that was rejected.
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
