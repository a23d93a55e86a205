import { placeOfDomain } from '../sources.ts'
import { checkRule } from './domains.ts'
import { type ApiCall, optionalText, type StreamHandler, textOf } from './handler.ts'

const placeOf = (call: ApiCall) => placeOfDomain(call.sources, textOf(call, 'domain'))
const watchedBy = (call: ApiCall) => ({
  domain: textOf(call, 'domain'),
  rule: optionalText(call, 'rule'),
})

export const series: StreamHandler = {
  event: 'point',
  placeOf,
  check: checkRule,
  stream: call => call.sources.pods.series(watchedBy(call), call.signal),
}

export const tap: StreamHandler = {
  event: 'decisions',
  placeOf,
  check: checkRule,
  async *stream(call) {
    const batches = call.sources.pods.tap(watchedBy(call), call.signal)
    for await (const { hashed = false, ...batch } of batches) yield { ...batch, hashed }
  },
}
