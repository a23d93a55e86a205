import { rowsOf, type StreamRow } from '../../streams/stream-rows.ts'
import type { StreamList } from '../shapes.ts'
import type { Handler } from './handler.ts'
import { pageOf } from './page-of.ts'

export const streams: Handler = {
  placeOf: () => ({}),
  async answer({ sources, parameters }): Promise<StreamList> {
    const brokers = await sources.brokers()
    const page = pageOf(rowsOf({ brokers }), ({ key }) => key, parameters)
    return {
      ...page,
      items: page.items.map(describeRow),
      missing: brokers.flatMap(look =>
        'problem' in look ? [{ broker: look.address, problem: look.problem }] : [],
      ),
    }
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
    ...{ key, streamId, requestId, targetObjectId, sourceServiceId, route, state, end, ageMs },
    producers: [...producers],
    consumers: consumers.map(({ broker, peer, messagesBehind, bytesBehind }) => ({
      ...{ broker, peer, messagesBehind, bytesBehind },
    })),
    ...(messages !== undefined && { messages }),
    ...(bytes !== undefined && { bytes }),
  }
}
