import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { StreamLog } from '../stream-log/stream-log.ts'
import type { Broker } from '../streams/broker.ts'
import { PageError } from './admin-errors.ts'
import { type FindPage, jsonType, type PageHandler, send } from './page-server.ts'
import { type MakePreview, previewPage } from './preview-page.ts'
import { streamsJson, streamsPage } from './streams-page.ts'
import type { StreamWatch } from './watch-streams.ts'

export interface StreamPagesOptions {
  readonly broker: Pick<Broker, 'requests' | 'waitingPulls'>
  readonly streams: Pick<StreamLog, 'interrupt'>
  readonly makePreview: MakePreview
  readonly clock: Clock
  readonly watch: Pick<StreamWatch, 'add'>
  /** Returns whether a caller may go on to watch. If left out, every caller may watch. */
  readonly mayWatch?: (caller: IncomingMessage) => boolean
}

export const streamPagesHelp = `\
GET /streams: the requests that are known here, as JSON, or as a page for a browser
GET /streams/preview?key=KEY: the last messages of a request, decimated: audio and blend shapes
GET /streams?watch=true: the running requests, then each change, as lines of JSON
DELETE /streams/{stream}: interrupts every request of a stream
DELETE /streams/{stream}/requests/{request}: interrupts one, and rejects its pushes for a while
`

const html = 'text/html; charset=utf-8'

/** The pages of streams for the debug server and the admin API: list, preview, watch, and interruption. */
export function streamPages(options: StreamPagesOptions): FindPage {
  const { watch, mayWatch = () => true } = options
  const list: PageHandler = (request, response, query) => {
    const wanted = query.get('watch')
    if (wanted === null) sendStreams(options, request, response)
    else if (wanted === 'true') watch.add(response, () => mayWatch(request))
    else throw new PageError('invalid', 'watch: only true is allowed')
  }
  const preview = previewPage(options.makePreview)
  return (path, method) => {
    if (method === 'DELETE') return createInterruption(path, options)
    if (path === '/streams/preview') return preview
    return path === '/streams' ? list : undefined
  }
}

function sendStreams(
  { broker, clock }: StreamPagesOptions,
  { headers }: IncomingMessage,
  response: ServerResponse,
): void {
  const forPeople = headers.accept?.includes('text/html') === true
  if (forPeople) send(response, 200, streamsPage(broker, clock.nowMs()), html)
  else send(response, 200, `${JSON.stringify(streamsJson(broker, clock.nowMs()))}\n`, jsonType)
}

/**
 * Matches `/streams/{stream}` and `/streams/{stream}/requests/{request}`, both percent-encoded. The stream
 * may be empty only in the second form: in the first it is probably a mistake, and would match every stream.
 */
const interruptionPath = /^\/streams\/(?:([^/]+)|([^/]*)\/requests\/([^/]+))$/

function createInterruption(path: string, { streams }: StreamPagesOptions): PageHandler | undefined {
  const match = interruptionPath.exec(path)
  if (match === null) return undefined
  const [, alone, stream = alone ?? '', request = ''] = match
  return async (_, response) => {
    const ids = decodeAll([stream, request])
    if (ids === undefined) throw new PageError('invalid', 'the ids are not percent-encoded')
    const [streamId = '', requestId = ''] = ids
    const interrupted = await streams.interrupt(streamId, requestId).catch((error: Error) => {
      throw new PageError('log-failed', error.message)
    })
    send(response, 200, `${JSON.stringify({ interrupted })}\n`, jsonType)
  }
}

function decodeAll(texts: readonly string[]): readonly string[] | undefined {
  try {
    return texts.map(decodeURIComponent)
  } catch {
    return undefined
  }
}
