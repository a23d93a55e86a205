import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { presentRejection } from '../domain/present.ts'
import type { Rejected } from '../domain/rejections.ts'

export interface HttpAnswer {
  readonly status: number
  /** JSON, or a document of `type`. Empty for an answer without a body. */
  readonly body: string
  /** The media type of a body that is not JSON. */
  readonly type?: 'text/csv'
}

/** Returns an answer with a JSON body. The status is 201 for a new record, otherwise 200. */
export function jsonAnswer(status: 200 | 201, body: JsonObject): HttpAnswer {
  return { status, body: JSON.stringify(body) }
}

export const noContent: HttpAnswer = { status: 204, body: '' }

/**
 * Returns a JSON list with one element on each line, and `[` and `]` on lines of their own, because the
 * public client parses line by line.
 */
export function answerList(items: readonly Json[]): HttpAnswer {
  const lines = items.map(item => JSON.stringify(item)).join(',\n')
  return { status: 200, body: `[\n${lines}${lines === '' ? '' : '\n'}]\n` }
}

export function answerRejection({ rejection }: Rejected): HttpAnswer {
  return { status: rejection.status, body: JSON.stringify(presentRejection(rejection)) }
}
