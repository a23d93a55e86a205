import type { ManifestAnswer } from '../manifest-shapes.ts'
import { type ApiCall, type Handler, textOf } from './handler.ts'
import { rightOn } from './resources.ts'

const placeOf = (call: ApiCall) => ({ namespace: textOf(call, 'namespace'), name: textOf(call, 'name') })

/** Returns a resource as its author wrote it. */
export const manifest: Handler = {
  placeOf,
  rightOf: call => rightOn('get', textOf(call, 'kind')),
  async answer(call): Promise<ManifestAnswer> {
    const asked = { kind: textOf(call, 'kind'), ...placeOf(call) }
    const { token } = call.caller
    return { ...asked, ...(await call.sources.manifest({ ...asked, token, signal: call.signal })) }
  },
}
