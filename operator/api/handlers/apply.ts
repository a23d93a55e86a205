import type { ApplyAnswer, ApplyBody } from '../manifest-shapes.ts'
import { readOwner } from '../sources.ts'
import type { ApiCall, Handler } from './handler.ts'
import { checkClaim, describeWarnings, proposalOf } from './proposal.ts'

const bodyOf = ({ body }: ApiCall) => body as ApplyBody
const placeOf = (call: ApiCall) => readOwner(proposalOf(bodyOf(call).resource).domain.name)

/** Applies a RateLimitConfig with the rights of the caller: in its file, or in the cluster. */
export const apply: Handler = {
  placeOf,
  async answer(call): Promise<ApplyAnswer> {
    const { resource, manifest, dryRun = false, force = false, version } = bodyOf(call)
    const warnings = describeWarnings(checkClaim(proposalOf(resource), call.sources))
    const { namespace, name } = placeOf(call)
    const place = { namespace, name }
    const { token } = call.caller
    const request = { resource, manifest, version, ...place, dryRun, force, token, signal: call.signal }
    return { ...place, dryRun, warnings, ...(await call.sources.apply(request)) }
  },
}
