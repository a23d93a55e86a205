import { ApiError } from '../../../api/api-error.ts'
import type { Infrastructure } from '../../../infrastructure/provider.ts'
import type { BrokerLook } from '../../../streams/stream-rows.ts'

/** The admin API of brokers accepts only its own tokens, which the operator does not read. */
const problem =
  'the operator has no token of the admin API; use: tollway streams list --address URL --token-file FILE'

/** Returns the brokers of a cluster, whose requests the operator cannot read. */
export function brokersOf(infrastructure: Pick<Infrastructure, 'observe'>): readonly BrokerLook[] {
  return infrastructure.observe('broker').map(({ name }) => ({ address: name, problem }))
}

/** Rejects: the previews of brokers need the same token. */
export async function noPreview(): Promise<never> {
  throw new ApiError(501, 'no-token', 'the operator has no token of the admin API, which has the previews')
}
