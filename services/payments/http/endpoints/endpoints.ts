import type { PaymentsEndpoint } from '../endpoint.ts'
import { appEndpoints } from './apps.ts'
import { fraudEndpoints } from './frauds-and-disputes.ts'
import { memberEndpoints } from './members.ts'
import { merchantEndpoints } from './merchants.ts'
import { transactionEndpoints } from './transactions.ts'
import { webhookEndpoints } from './webhooks.ts'

/** All endpoints of the API. The routes of the server and the OpenAPI document come from this list. */
export const paymentsEndpoints: readonly PaymentsEndpoint[] = [
  ...appEndpoints,
  ...merchantEndpoints,
  ...memberEndpoints,
  ...transactionEndpoints,
  ...fraudEndpoints,
  ...webhookEndpoints,
]
