import { ownerOf } from '../sources.ts'
import { type ApiCall, optionalText, type StreamHandler, textOf } from './handler.ts'

const placeOf = (call: ApiCall) => ownerOf(call.sources, textOf(call, 'domain')) ?? {}
const watchedBy = (call: ApiCall) => ({
  domain: textOf(call, 'domain'),
  rule: optionalText(call, 'rule'),
})

export const series: StreamHandler = {
  event: 'point',
  placeOf,
  stream: call => call.sources.pods.series(watchedBy(call), call.signal),
}

export const tap: StreamHandler = {
  event: 'decisions',
  placeOf,
  async *stream(call) {
    const batches = call.sources.pods.tap(watchedBy(call), call.signal)
    for await (const { hashed = false, ...batch } of batches) yield { ...batch, hashed }
  },
}
