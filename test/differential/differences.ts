import type { JsonObject, JsonValue } from '@bufbuild/protobuf'
import type { Answer, Request } from './pair.ts'

/**
 * Intentional differences from this version of the reference. Each row converts the reference's answer to the
 * answer of the service; all other parts must be equal.
 */
export interface Difference {
  readonly name: string
  readonly reason: string
  /** Returns its argument where the difference does not apply. */
  rewrite(answer: Answer, about: About): Answer
}

/** The context of an answer. */
export interface About {
  readonly request: Request
  readonly ours: Answer
  /** Whether a descriptor is a quota, given the reference's status for it. */
  isQuota(status: JsonObject, index: number): boolean
  readonly globalShadowMode: boolean
}

export const answerDifferences: readonly Difference[] = [
  {
    name: 'a second passes between the two answers',
    reason: 'the two processes read the clock at different times; tests ensure that no window ends',
    rewrite(answer, { ours }) {
      const statuses = statusesOf(answer).map((status, index) => {
        const own = statusesOf(ours)[index]?.['durationUntilReset']
        const differs = Math.abs(secondsOf(own) - secondsOf(status['durationUntilReset'])) === 1
        return differs && own !== undefined ? { ...status, durationUntilReset: own } : status
      })
      const headers = headersOf(answer).map((header, index) => {
        const own = headersOf(ours)[index]
        const differs = index === 2 && Math.abs(Number(own?.['value']) - Number(header['value'])) === 1
        return differs && own !== undefined ? own : header
      })
      return {
        ...answer,
        ...(statuses.length > 0 && { statuses }),
        ...(headers.length > 0 && { responseHeadersToAdd: headers }),
      }
    },
  },
  {
    name: 'a used quota is reported',
    reason:
      'later versions of the reference answer OVER_LIMIT and the time until the reset for a quota that is used ' +
      'up, and overall when all quotas of the request are; this version calls it OK without a time',
    rewrite(answer, { ours, isQuota, globalShadowMode }) {
      const quotas = statusesOf(answer).map(isQuota)
      if (!quotas.includes(true)) return answer
      const statuses = statusesOf(answer).map((status, index) =>
        quotas[index] && 'currentLimit' in status && !('durationUntilReset' in status)
          ? {
              ...status,
              code: 'OVER_LIMIT',
              durationUntilReset: statusesOf(ours)[index]?.['durationUntilReset'] ?? '',
            }
          : status,
      )
      const over = statuses.map(({ code }) => code === 'OVER_LIMIT')
      const isOver = over.some((is, index) => is && !quotas[index])
      const allQuotasOver = over.every((is, index) => is || !quotas[index])
      const overallCode = (isOver || allQuotasOver) && !globalShadowMode ? 'OVER_LIMIT' : 'OK'
      return { ...answer, statuses, overallCode }
    },
  },
  {
    name: 'metadata does not contain quotas',
    reason:
      'later versions of the reference have no quotaModeEnabled and quotaModeViolations in the metadata',
    rewrite(answer) {
      const metadata = answer['dynamicMetadata']
      if (!isObject(metadata)) return answer
      const { quotaModeEnabled, quotaModeViolations, ...rest } = metadata
      return { ...answer, dynamicMetadata: rest }
    },
  },
  {
    name: 'spaces in a limit as a text',
    reason: 'the reference prints a protobuf message, whose spaces intentionally vary between builds',
    rewrite(answer) {
      const metadata = answer['dynamicMetadata']
      if (!isObject(metadata) || !Array.isArray(metadata['descriptors'])) return answer
      const descriptors = metadata['descriptors'].map(descriptor =>
        isObject(descriptor) && typeof descriptor['limit'] === 'string'
          ? { ...descriptor, limit: descriptor['limit'].replaceAll(/ +/g, ' ') }
          : descriptor,
      )
      return { ...answer, dynamicMetadata: { ...metadata, descriptors } }
    },
  },
]

/** Returns the reference's answer after all rows; adds those that changed the answer to `used`. */
export function expectedAnswer(reference: Answer, about: About, used: Set<string>): Answer {
  return answerDifferences.reduce((answer, { name, rewrite }) => {
    const rewritten = rewrite(answer, about)
    if (JSON.stringify(rewritten) !== JSON.stringify(answer)) used.add(name)
    return rewritten
  }, reference)
}

/** A series with another name in the service, or with a value that cannot be compared. */
export interface StatDifference {
  readonly names: RegExp
  readonly reason: string
  /** Converts the reference's name; without it the series is not compared. */
  rename?(name: string): string
}

/** Names in the form of statsd; all other series have the same name and the same value. */
export const statDifferences: readonly StatDifference[] = [
  {
    names: /\.__.*=/s,
    reason: 'a name of a caller must not look like a tag (`.__tag=value`) to the receiver',
    rename: name =>
      name.replaceAll(/[._]+(?=.*=)/gs, run => (run.includes('.__') ? run.replaceAll('.', '_') : run)),
  },
  {
    names: /^ratelimit\.go\./,
    reason: "of Go's memory and garbage collector",
  },
  {
    names: /^runtime\./,
    reason:
      'of the library with which the reference reads files; config_load_success and _error say the same',
  },
  {
    names: /^ratelimit\.backend\./,
    reason: 'the service alone reports whether its backend fails',
  },
  {
    names: /^ratelimit\.redis_pool\./,
    reason:
      'the reference opens a pool of 10 connections at once; the service opens few connections, on demand',
  },
]

/** Returns the service's name of a series of the reference; undefined for one that is not compared. */
export function expectedName(name: string): string | undefined {
  const difference = statDifferences.find(({ names }) => names.test(name))
  return difference === undefined ? name : difference.rename?.(name)
}

/** Returns the sums of counters under the service's names, of the reference or of the service. */
export function comparableSums(sums: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  const comparable = new Map<string, number>()
  for (const [name, value] of sums) {
    const expected = expectedName(name)
    if (expected !== undefined) comparable.set(expected, (comparable.get(expected) ?? 0) + value)
  }
  return comparable
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function statusesOf(answer: Answer): readonly JsonObject[] {
  return objectsIn(answer['statuses'])
}

function headersOf(answer: Answer): readonly JsonObject[] {
  return objectsIn(answer['responseHeadersToAdd'])
}

function objectsIn(list: JsonValue | undefined): JsonObject[] {
  return Array.isArray(list) ? list.filter(isObject) : []
}

/** Returns `42s` as 42; NaN for an invalid duration. */
function secondsOf(duration: JsonValue | undefined): number {
  return typeof duration === 'string' ? Number(duration.replace(/s$/, '')) : Number.NaN
}
