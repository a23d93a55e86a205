import { KubeApiError } from '../../environments/kubernetes/api/api-error.ts'

/** The words with which the API server refuses what no role of the account allows. */
const refusal = /User "([^"]*)" cannot ([\w:-]+) resource "([^"]+)" in API group "([^"]*)"/
const place = /in the namespace "([^"]*)"/

/** Returns an error that names the missing right if roles do not allow the call; else the error itself. */
export function explainMissingRight(error: unknown): unknown {
  if (!(error instanceof KubeApiError) || error.code !== 403) return error
  const [, user, verb, resource, group = ''] = refusal.exec(error.message) ?? []
  const namespace = place.exec(error.message)?.[1]
  if (user === undefined) return error
  const what = group === '' ? resource : `${resource}.${group}`
  const where = namespace === undefined ? 'in all namespaces' : `in the namespace ${namespace}`
  const option = resource === 'pods' ? '--tollway-namespace NAME' : '-n NAMESPACE'
  const advice = namespace === undefined ? `; ${option} asks for one namespace` : ''
  return new MissingRightError(`${user} lacks the right to ${verb} ${what} ${where}${advice}`)
}

/** The account may not make a call. The message names the account and the right. */
export class MissingRightError extends Error {
  override readonly name = 'MissingRightError'
}
