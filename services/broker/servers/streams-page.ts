import { pluralize } from '@tollway/chassis/text.ts'
import { toEndJson } from '../stream-log/stream-log.ts'
import type { Broker, RequestView } from '../streams/broker.ts'

type Shown = Pick<Broker, 'requests' | 'waitingPulls'>

/** A list leaves further requests out. */
const maxShown = 1_000

/**
 * Returns the known requests: first the running ones, then the ended ones that are kept, each the oldest
 * first. Times are in milliseconds; ids are as the producer sent them.
 */
export function streamsJson(broker: Shown, nowMs: number) {
  const requests = broker.requests().toSorted((a, b) => Number(a.request.ended) - Number(b.request.ended))
  return {
    waitingPulls: broker.waitingPulls,
    total: requests.length,
    streams: requests.slice(0, maxShown).map(view => toView(view, nowMs)),
  }
}

/** Returns `streamsJson` as text. Beyond `maxBytes` the last requests are left out. */
export function streamsText(broker: Shown, nowMs: number, maxBytes: number): string {
  const { streams, ...numbers } = streamsJson(broker, nowMs)
  let bytes = Buffer.byteLength(JSON.stringify({ ...numbers, streams: [] }))
  const texts = streams.map(stream => JSON.stringify(stream))
  const tooMany = texts.findIndex(text => {
    bytes += Buffer.byteLength(text) + 1
    return bytes > maxBytes
  })
  const shown = tooMany === -1 ? streams : streams.slice(0, tooMany)
  return JSON.stringify({ ...numbers, streams: shown })
}

/** Returns all known requests, as in `streamsJson`. */
export function streamViews(broker: Pick<Broker, 'requests'>, nowMs: number): readonly StreamView[] {
  return broker.requests().map(view => toView(view, nowMs))
}

export type StreamView = ReturnType<typeof toView>

function toView({ request, producer, received, consumers }: RequestView, nowMs: number) {
  const { key, ids, sourceServiceId, route, openedMs, ended, end } = request
  return {
    /** The key of the request, the same at every broker that knows it. */
    key,
    ...ids,
    sourceServiceId,
    route,
    ageMs: nowMs - openedMs,
    ended,
    /** Null while the request is running. */
    end: end === undefined ? null : toEndJson(end),
    /** The address of the producer; null if it is disconnected, or connected to another broker. */
    producer: producer?.peer ?? null,
    /** The messages from the producer; null if it was never connected to this broker. */
    messages: received?.messages ?? null,
    bytes: received?.bytes ?? null,
    consumers: consumers.map(({ peer, behind }) => ({
      peer,
      messagesBehind: behind.entries,
      bytesBehind: behind.bytes,
    })),
  }
}

const columns = ['stream', 'request', 'object', 'source', 'route', 'age', 'state', 'producer', 'consumers']

/** Returns `streamsJson` as a page that reloads every two seconds. */
export function streamsPage(broker: Shown, nowMs: number): string {
  const { streams, total, waitingPulls } = streamsJson(broker, nowMs)
  const requests = pluralize(total, 'request is', 'requests are')
  const pulls = pluralize(waitingPulls, 'pull waits', 'pulls wait')
  const rows = streams.map(stream =>
    row('td', [
      stream.streamId,
      stream.requestId,
      stream.targetObjectId,
      stream.sourceServiceId,
      stream.route || 'default',
      `${(stream.ageMs / 1000).toFixed(1)} s`,
      stream.end === null ? 'running' : `ended: ${stream.end.how}`,
      stream.producer ?? '',
      stream.consumers.map(({ peer, messagesBehind }) => `${peer} (${messagesBehind} behind)`).join(', '),
    ]),
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>streams</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 2rem }
td, th { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #ddd }
</style></head><body>
<h1>Streams</h1>
<p>${requests} known here, ${pulls} for one.</p>
<table><thead>${row('th', columns)}</thead><tbody>
${rows.join('\n')}
</tbody></table></body></html>
`
}

function row(cell: 'td' | 'th', texts: readonly string[]): string {
  return `<tr>${texts.map(text => `<${cell}>${escapeHtml(text)}</${cell}>`).join('')}</tr>`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
}
