import {
  type LoggedRequest,
  type RequestEnd,
  type StoredProgress,
  toEndJson,
} from '../stream-log/stream-log.ts'

/** A message for the webhook of a route. */
export interface Notification {
  /**
   * `RUN.begun` or `RUN.ended`, the same in each attempt and at each broker: receivers can drop duplicates.
   */
  readonly id: string
  readonly type: 'stream.begun' | 'stream.ended'
  /** The key of the request, the name of the run that consumers resume. */
  readonly run: string
  /** The JSON to post; see docs/reference/streams.md. */
  readonly body: string
}

export function createBegunNotification(request: LoggedRequest): Notification {
  return createNotification('begun', request, request.openedMs, {})
}

/**
 * @param endedMs in milliseconds since the epoch
 * @param progress has `messages` and `bytes` only if this process knows them
 */
export function createEndedNotification(
  request: LoggedRequest,
  end: RequestEnd,
  { endedMs, progress }: { readonly endedMs: number; readonly progress: StoredProgress | undefined },
): Notification {
  const { messages, bytes } = (progress ?? {}) as { readonly messages?: number; readonly bytes?: number }
  const ended = new Date(endedMs).toISOString()
  return createNotification('ended', request, endedMs, { ended, end: toEndJson(end), messages, bytes })
}

function createNotification(
  what: 'begun' | 'ended',
  { key: run, route: routeName, ids, sourceServiceId, openedMs }: LoggedRequest,
  createdMs: number,
  more: object,
): Notification {
  const id = `${run}.${what}`
  const type = `stream.${what}` as const
  const [namespace, route] = routeName.split('/')
  const { streamId, requestId, targetObjectId } = ids
  const begun = new Date(openedMs).toISOString()
  const created = new Date(createdMs).toISOString()
  const data = { run, streamId, requestId, targetObjectId, sourceServiceId, begun, ...more }
  return { id, type, run, body: JSON.stringify({ id, type, created, namespace, route, data }) }
}
