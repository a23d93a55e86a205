import { ApiError } from './api-error.ts'
import { type Endpoint, endpoints } from './endpoints.ts'
import { apiPath } from './openapi-document.ts'

export interface FoundEndpoint {
  readonly endpoint: (typeof endpoints)[number]
  /** The parameters in the path, decoded. */
  readonly inPath: Readonly<Record<string, string>>
}

/** @throws ApiError with 404 for an unknown path, and with 405 for another method */
export function findEndpoint(method: string, path: string): FoundEndpoint {
  const found = endpoints.flatMap(endpoint => {
    const inPath = matchPath(endpoint, path)
    return inPath === undefined ? [] : [{ endpoint, inPath }]
  })
  const asked = found.find(({ endpoint }) => endpoint.method === method)
  if (asked !== undefined) return asked
  if (found.length === 0) {
    throw new ApiError(404, 'not-found', `there is no such path; ${apiPath}/openapi.json lists all paths`)
  }
  const allow = found.map(({ endpoint }) => endpoint.method).join(', ')
  throw new ApiError(405, 'method', `${method} is not allowed; expected ${allow}`, { headers: { allow } })
}

function matchPath(endpoint: Endpoint, path: string): Record<string, string> | undefined {
  const expected = `${apiPath}${endpoint.path}`.split('/')
  const given = path.split('/')
  if (given.length !== expected.length) return undefined
  const inPath: Record<string, string> = {}
  for (const [index, part] of expected.entries()) {
    const text = given[index] ?? ''
    if (!part.startsWith('{')) {
      if (part !== text) return undefined
    } else {
      const value = decode(text)
      if (value === undefined) return undefined
      inPath[part.slice(1, -1)] = value
    }
  }
  return inPath
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
