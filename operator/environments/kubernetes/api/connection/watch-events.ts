import type { IncomingMessage } from 'node:http'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { KubeObject } from '../kube-object.ts'
import { KubeApiError, statusError } from './api-error.ts'
import { readLines } from './transport.ts'

/** An event of an object. A bookmark has nothing but the resourceVersion that was reached. */
export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: KubeObject
}

const types: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

/**
 * Yields the events of a watch, one JSON text in each line.
 *
 * @throws KubeApiError with the server's code for its error event, `BadAnswer` for anything that is no event
 */
export async function* readWatchEvents(
  response: IncomingMessage,
  call: string,
  maxBytes: number,
): AsyncGenerator<WatchEvent> {
  for await (const line of readLines(response, call, maxBytes)) {
    if (line.trim() !== '') yield toEvent(line, call)
  }
}

function toEvent(line: string, call: string): WatchEvent {
  const bad = (why: string) => new KubeApiError(0, 'BadAnswer', `${call}: an event ${why}`)
  let event: unknown
  try {
    event = JSON.parse(line)
  } catch {
    throw bad('is not JSON')
  }
  if (!isObject(event) || !isObject(event['object'])) throw bad('has no object')
  const { type, object } = event
  if (type === 'ERROR') {
    throw statusError(call, typeof object['code'] === 'number' ? object['code'] : 500, object)
  }
  if (!types.has(type)) throw bad('is of no known type')
  if (!isEventObject(type, object)) throw bad('has no name and resourceVersion')
  return { type: type as WatchEvent['type'], object }
}

/** A bookmark has no name. */
function isEventObject(type: unknown, object: Readonly<Record<string, unknown>>): object is KubeObject {
  const { metadata } = object
  if (!isObject(metadata) || typeof metadata['resourceVersion'] !== 'string') return false
  return type === 'BOOKMARK' || typeof metadata['name'] === 'string'
}
