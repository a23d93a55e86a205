import type { ApiCaller, RightPlace } from '../access.ts'
import { ApiError } from '../api-error.ts'
import { type Endpoint, endpoints, type Right } from '../endpoints.ts'
import type { RightList } from '../shapes.ts'
import { type Handler, optionalText } from './handler.ts'

/** The rights that calls of the API need, each once. */
const neededRights: readonly Right[] = [
  ...new Map(
    (endpoints as readonly Endpoint[]).flatMap(({ right }) =>
      right === undefined ? [] : [[`${right.verb} ${right.resource}`, right] as const],
    ),
  ).values(),
]

export const rights: Handler = {
  placeOf: () => ({}),
  async answer(call): Promise<RightList> {
    const namespace = optionalText(call, 'namespace')
    const found = neededRights.map(async right => ({
      ...{ verb: right.verb, resource: right.resource },
      allowed: await isAllowed(call.caller, right, { namespace }),
    }))
    return {
      user: call.caller.name,
      ...(namespace !== undefined && { namespace }),
      rights: await Promise.all(found),
    }
  },
}

async function isAllowed(caller: ApiCaller, right: Right, place: RightPlace): Promise<boolean> {
  try {
    await caller.authorize(right, place)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return false
    throw error
  }
}
