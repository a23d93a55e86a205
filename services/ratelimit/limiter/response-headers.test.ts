import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DescriptorDecision } from './decision.ts'
import { toLimitHeaders } from './response-headers.ts'

const names = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' }

/**
 * `10/minute 3 42`: a limit, the remaining requests, the seconds to the reset; prefixed by `over` or `quota`.
 */
function headersOf(text: string): string {
  const parts = text === '' ? [] : text.split(';').map(part => part.trim())
  const statuses = parts.map((part): DescriptorDecision => {
    const [, requests, remaining, resetSeconds] = /(\d+)\/minute (\d+) (\d+)$/.exec(part) ?? []
    const over = part.includes('over')
    if (requests === undefined) return { over, remaining: 0 }
    const limit = { name: '', requestsPerUnit: Number(requests), unit: 'minute' as const }
    return { over, remaining: Number(remaining), limit: { ...limit, resetSeconds: Number(resetSeconds) } }
  })
  const isOver = (index: number) => /^over/.test(parts[index] ?? '')
  return toLimitHeaders(statuses, isOver, names)
    .map(({ key, value }) => `${key}: ${value}`)
    .join(', ')
}

const table: readonly (readonly [string, string])[] = [
  ['', ''],
  ['none', ''],
  ['4294967295/minute 4294967295 42', ''],
  ['4294967295/minute 4294967294 42', '4294967295 4294967294 42'],
  ['4294967295/minute 4294967295 42; 10/minute 3 1', '10 3 1'],
  ['10/minute 3 42', '10 3 42'],
  ['10/minute 3 42; 9/minute 2 1', '9 2 1'],
  ['10/minute 3 42; 9/minute 3 1', '10 3 42'],
  ['none; 10/minute 3 42', '10 3 42'],
  ['over 10/minute 0 42; 9/minute 0 1', '10 0 42'],
  ['9/minute 0 1; over 10/minute 0 42', '10 0 42'],
  ['over 9/minute 0 1; over 10/minute 0 42', '10 0 42'],
  ['quota over 9/minute 0 1; 10/minute 3 42', '9 0 1'],
]

test('the headers describe the descriptor that is closest to its limit', () => {
  for (const [statuses, expected] of table) {
    const [limit, remaining, reset] = expected.split(' ')
    const headers = `RateLimit-Limit: ${limit}, RateLimit-Remaining: ${remaining}, RateLimit-Reset: ${reset}`
    assert.equal(headersOf(statuses), expected === '' ? '' : headers, statuses)
  }
})
