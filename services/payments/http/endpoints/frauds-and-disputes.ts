import { enumeration, id } from '../../domain/input/fields.ts'
import { described, optionalField, record, requiredField } from '../../domain/input/record.ts'
import { transactionId } from '../../domain/input/search.ts'
import { presentDispute, presentFraudAlert } from '../../domain/present.ts'
import { disputeStatuses } from '../../domain/transaction/dispute.ts'
import { ownDispute, ownFraud } from '../../operations/accounts/access.ts'
import { listOwnDisputes, listOwnFrauds } from '../../operations/lists.ts'
import type { PaymentsEndpoint } from '../endpoint.ts'
import { listEndpoint, readEndpoint } from '../get-endpoints.ts'
import { disputeExample, fraudExample } from '../openapi/examples.ts'
import { ref } from '../openapi/schemas.ts'

const tag = 'Frauds and disputes'
const merchantId = described(id, 'The id of the merchant.')

const frauds = listEndpoint({
  path: '/frauds',
  operationId: 'listFrauds',
  tag,
  summary: 'List the fraud alerts of a merchant',
  filter: record({ merchantId: requiredField(merchantId), transactionId: optionalField(transactionId) }),
  item: { schema: ref('Fraud'), example: fraudExample },
  owner: ({ merchantId }) => merchantId,
  list: listOwnFrauds,
  present: presentFraudAlert,
})

const fraud = readEndpoint({
  path: '/frauds/{fraudId}',
  operationId: 'getFraud',
  tag,
  summary: 'Read a fraud alert',
  field: 'fraud',
  item: { schema: ref('Fraud'), example: fraudExample },
  find: ownFraud,
  present: presentFraudAlert,
})

const disputes = listEndpoint({
  path: '/disputes',
  operationId: 'listDisputes',
  tag,
  summary: 'List the disputes of a merchant',
  filter: record({
    merchantId: requiredField(merchantId),
    transactionId: optionalField(transactionId),
    status: optionalField(
      described(enumeration(disputeStatuses, 'format'), 'Only disputes with this status.'),
    ),
  }),
  item: { schema: ref('Dispute'), example: disputeExample },
  owner: ({ merchantId }) => merchantId,
  list: listOwnDisputes,
  present: presentDispute,
})

const dispute = readEndpoint({
  path: '/disputes/{disputeId}',
  operationId: 'getDispute',
  tag,
  summary: 'Read a dispute',
  field: 'dispute',
  item: { schema: ref('Dispute'), example: disputeExample },
  find: ownDispute,
  present: presentDispute,
})

export const fraudEndpoints: readonly PaymentsEndpoint[] = [frauds, fraud, disputes, dispute]
