import type { JsonObject } from '@bufbuild/protobuf'
import type { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import { statusesOf } from './differences.ts'
import type { Answer, Request } from './pair.ts'

/**
 * Parses a request of one line: `user=alice path=/x +2 | user=bob limit=3/4 hits=5`. Descriptors are
 * separated by ` | `; `+2` is a descriptor's hits, `limit=3/4` its limit of 3 in the unit with the number 4,
 * and `hits=5` those of the request. A leading `domain:` selects another domain; `nothing` is no descriptor,
 * and `-` one without entries.
 */
export function parseRequest(line: string, usualDomain: string): Request {
  const [, named, rest = ''] = /^(?:(\S*): )?(.*)$/s.exec(line) ?? []
  const hits = /(?:^| )hits=(\d+)/.exec(rest)?.[1]
  const parts = rest === 'nothing' ? [] : rest.replace(/(?:^| )hits=\d+/, '').split(' | ')
  return {
    domain: named ?? usualDomain,
    hitsAddend: Number(hits ?? 0),
    descriptors: parts.map(parseDescriptor),
  }
}

function parseDescriptor(text: string) {
  const words = text.split(' ').filter(word => word !== '' && word !== '-')
  const own = words.find(word => /^\+\d+$/.test(word))
  const [, count, unit] =
    words.map(word => /^limit=(\d+)\/(\d+)$/.exec(word)).find(found => found !== null) ?? []
  const entries = words.filter(word => !/^(?:\+\d+|limit=\d+\/\d+)$/.test(word)).map(parseEntry)
  return {
    entries,
    ...(own !== undefined && { hitsAddend: BigInt(own) }),
    ...(count !== undefined && {
      limit: { requestsPerUnit: Number(count), unit: Number(unit) as RateLimitUnit },
    }),
  }
}

function parseEntry(word: string) {
  const end = word.indexOf('=')
  return { key: word.slice(0, end), value: word.slice(end + 1) }
}

/**
 * Formats an answer in one line: `OVER: OK 4/5 YEAR | OVER 0/3 DAY x | OK | OK unlimited`, each with the
 * remaining requests, the limit, the unit and the limit's name; an error as `UNKNOWN its message`.
 */
export function formatAnswer(answer: Answer): string {
  if ('status' in answer) return `${answer['status']} ${answer['message']}`
  return `${formatCode(answer['overallCode'])}: ${statusesOf(answer).map(formatStatus).join(' | ')}`
}

const formatCode = (code: unknown) => (code === 'OVER_LIMIT' ? 'OVER' : `${code}`)

function formatStatus({ code, currentLimit, limitRemaining }: JsonObject): string {
  const words = [formatCode(code)]
  if (typeof currentLimit === 'object' && currentLimit !== null && !Array.isArray(currentLimit)) {
    words.push(`${limitRemaining ?? 0}/${currentLimit['requestsPerUnit'] ?? 0} ${currentLimit['unit']}`)
    if (currentLimit['name'] !== undefined) words.push(`${currentLimit['name']}`)
  } else if (limitRemaining !== undefined)
    words.push(limitRemaining === 0xffffffff ? 'unlimited' : `${limitRemaining}`)
  return words.join(' ')
}
