import { InfrastructureError } from '../../../infrastructure/provider.ts'
import { KubeApiError } from '../api/connection/api-error.ts'
import type { KubeObject } from '../api/kube-object.ts'

/** The codes and words of an answer, and what a person can do. The first row that matches applies. */
const advice: readonly (readonly [codes: readonly number[], words: RegExp, advice: string])[] = [
  [[403], /exceeded quota/, 'raise the quota of the namespace, or ask for less'],
  [[], /admission (webhook|policy)|ValidatingAdmissionPolicy/i, 'a policy of the cluster refuses it'],
  [[403], /PodSecurity/, 'the namespace must let pods of the profile "restricted" run'],
  [[403], /./, 'a policy of the cluster or its authorization refuses it'],
  [[401], /./, "the cluster does not take the operator's token"],
  [[422], /field is immutable/, 'that cannot be changed: delete the object, and it is made anew'],
  // An apply that cannot be read is answered with 500.
  [
    [],
    /quantities must match|unable to convert|failed to create typed/,
    'see what the configuration says of the pods',
  ],
  [[400, 422], /./, 'see what the configuration says of the pods'],
  [[404], /namespaces? /, 'its namespace must be there'],
  [[404], /./, 'the cluster does not know this kind: is it Kubernetes 1.27 or newer?'],
  [[409], /./, 'another client changed it at the same time; the operator retries'],
]
const trouble = 'the API server is failing or unreachable; the operator retries'

/** The API server's `cannot patch resource "deployments" in API group "apps"`. */
const missingPermission = /cannot (\w+) resource "([^"]+)" in API group "([^"]*)"/

/**
 * Returns the error of a failed write for people: the object, the words of the server, and what to do.
 *
 * @param verb `applied`, `deleted`
 */
export function writeError(error: unknown, verb: string, { kind, metadata }: KubeObject): unknown {
  if (!(error instanceof KubeApiError)) return endOfTerm(error)
  const words = error.code === 0 ? error.message : error.message.replace(/^.*?: \d+ \w+: /, '')
  const what = `${kind} "${metadata.name}" of the namespace "${metadata.namespace}" cannot be ${verb}`
  return new InfrastructureError(
    `${what}: ${words} (${error.code} ${error.reason}); ${adviceFor(error, words)}`,
    {
      cause: error,
      retryAfterMs: error.retryAfterMs,
    },
  )
}

/** Returns the reason for which the end of a term aborted the call. */
function endOfTerm(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof InfrastructureError ? error.cause : error
}

function adviceFor({ code }: KubeApiError, words: string): string {
  const [, verb, resource, group] = missingPermission.exec(words) ?? []
  if (code === 403 && verb !== undefined) {
    return `the operator's role lacks the permission to ${verb} ${resource} of the API group "${group}"`
  }
  const found = advice.find(
    ([codes, pattern]) => (codes.length === 0 ? code >= 400 : codes.includes(code)) && pattern.test(words),
  )
  return found?.[2] ?? trouble
}

/** The codes of an answer that does not depend on the object. 500 may depend on it. */
const outageCodes: ReadonlySet<number> = new Set([0, 401, 429, 503, 504])

/** Returns whether the next write would fail too, because the error does not depend on this object. */
export function isOutage({ cause }: InfrastructureError): boolean {
  if (!(cause instanceof KubeApiError)) return true
  return outageCodes.has(cause.code)
}
