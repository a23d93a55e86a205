import { hash } from 'node:crypto'
import { ApiError } from './api-error.ts'

const versionLength = 32

/** Returns the version of a manifest: a hash of its text, so that a change of its status has no effect. */
export const versionOf = (manifest: string) => hash('sha256', manifest, 'hex').slice(0, versionLength)

/**
 * @param expected the version that the caller has read; undefined for any
 * @param found the version of the resource; undefined if it does not exist
 * @throws ApiError with 409 if they differ
 */
export function assertVersion(
  {
    namespace,
    name,
    version: expected,
  }: Record<'namespace' | 'name', string> & { version?: string | undefined },
  found: string | undefined,
): void {
  if (expected === undefined || expected === found) return
  const resource = `RateLimitConfig ${namespace}/${name}`
  const message =
    found === undefined
      ? `version: ${resource} does not exist any more; expected version ${expected}`
      : `version: ${resource} has version ${found}; expected ${expected}: read it again`
  throw new ApiError(409, 'changed', message, { problems: [{ path: 'version', message }] })
}
