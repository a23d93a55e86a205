import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../../test/support/golden.ts'
import { formatProblemDetails, type ListedLimit } from './answer-extras.ts'
import { toIetfHeaders } from './response-headers.ts'

const plain = { name: '', remaining: 0, over: false, shown: true }

/** The headers and the body for limits in the form of `ListedLimit`; `t: never` is no reset. */
goldenTests(join(import.meta.dirname, 'testdata/answers'), text => {
  const { over, limits } = load(text, { schema: CORE_SCHEMA }) as Given
  const listed = limits.map(({ q, w, r, t, ...more }): ListedLimit => {
    const resetSeconds = t === 'never' ? undefined : t
    const delays = more.over === true
    return { ...plain, delays, requestsPerUnit: q, windowSeconds: w, remaining: r, resetSeconds, ...more }
  })
  return {
    headers: toIetfHeaders(listed, over).map(({ key, value }) => `${key}: ${value}`),
    ...(over && { body: JSON.parse(formatProblemDetails(listed)) }),
  }
})

interface Given {
  readonly over: boolean
  readonly limits: readonly (Partial<ListedLimit> &
    Record<'q' | 'w' | 'r', number> & { t: number | 'never' })[]
}
