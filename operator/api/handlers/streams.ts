import { type BrokerResult, mergeRows, type StreamRow } from '../../broker-queries/stream-rows.ts'
import { paginate } from '../../ratelimit-queries/pages.ts'
import { ApiError, errorOfField } from '../errors.ts'
import type { StreamList } from '../stream-shapes.ts'
import { type Handler, readPage, requiredText } from './handler.ts'

export const streamsHandler: Handler = {
  resolveScope: () => ({}),
  async answer(call): Promise<StreamList> {
    const brokers = await call.sources.brokers.list()
    const page = paginate(mergeRows({ brokers }), ({ key }) => key, readPage(call))
    return {
      ...page,
      items: page.items.map(describeRow),
      missing: brokers.flatMap(look =>
        'problem' in look ? [{ broker: look.address, problem: look.problem }] : [],
      ),
      unlisted: brokers.reduce((sum, look) => sum + countUnlisted(look), 0),
    }
  },
}

const countUnlisted = (look: BrokerResult) =>
  'page' in look ? look.page.total - look.page.streams.length : 0

/** Answers with the preview of a broker unchanged: its JSON already has the shape of the answer. */
export const preview: Handler = {
  resolveScope: () => ({}),
  async answer(call): Promise<object> {
    const result = await call.sources.brokers.preview(requiredText(call, 'key'))
    if ('preview' in result) return result.preview
    if ('problem' in result) throw new ApiError('broker-failed', result.problem)
    const message = 'key: no broker keeps a request with this key'
    throw errorOfField('not-found', 'key', message)
  },
}

function describeRow({
  messages,
  bytes,
  producers,
  consumers,
  ...row
}: StreamRow): StreamList['items'][number] {
  const { key, streamId, requestId, targetObjectId, sourceServiceId, route, state, end, ageMs } = row
  return {
    key,
    streamId,
    requestId,
    targetObjectId,
    sourceServiceId,
    route,
    state,
    end,
    ageMs,
    producers: [...producers],
    consumers: consumers.map(({ broker, peer, messagesBehind, bytesBehind }) => ({
      broker,
      peer,
      messagesBehind,
      bytesBehind,
    })),
    ...(messages !== undefined && { messages }),
    ...(bytes !== undefined && { bytes }),
  }
}
