import type { PaymentsEndpoint } from '../endpoint.ts'
import { appEndpoints } from './apps.ts'
import { cardEndpoints } from './cards.ts'
import { fraudEndpoints } from './frauds-and-disputes.ts'
import { memberEndpoints } from './members.ts'
import { merchantEndpoints } from './merchants.ts'
import { transactionEndpoints } from './transactions.ts'
import { webhookEndpoints } from './webhooks.ts'

/** Every endpoint of the API. The server and the OpenAPI document are made from this list alone. */
export const paymentsEndpoints: readonly PaymentsEndpoint[] = [
  ...appEndpoints,
  ...merchantEndpoints,
  ...memberEndpoints,
  ...transactionEndpoints,
  ...cardEndpoints,
  ...fraudEndpoints,
  ...webhookEndpoints,
]
