import { enumeration, id } from '../../domain/input/fields.ts'
import { described, optionalField, record, requiredField } from '../../domain/input/record.ts'
import { transactionId } from '../../domain/input/search.ts'
import { presentDispute, presentFraudAlert } from '../../domain/present.ts'
import { mapResult } from '../../domain/rejections.ts'
import { disputeStatuses } from '../../domain/transaction/dispute.ts'
import { ownDispute, ownFraud } from '../../operations/accounts/access.ts'
import { listOwnDisputes, listOwnFrauds } from '../../operations/lists.ts'
import { jsonAnswer } from '../answer.ts'
import type { AppEndpoint, PaymentsEndpoint } from '../endpoint.ts'
import { listEndpoint } from '../list-endpoint.ts'
import { disputeExample, fraudExample } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Frauds and disputes'
const merchantId = described(id, 'The id of the merchant.')

const frauds = listEndpoint({
  path: '/frauds',
  operationId: 'listFrauds',
  tag,
  summary: 'List the fraud alerts of a merchant',
  filter: record({ merchantId: requiredField(merchantId), transactionId: optionalField(transactionId) }),
  item: { schema: ref('Fraud'), example: fraudExample },
  owner: (_, { merchantId }) => merchantId,
  list: listOwnFrauds,
  present: presentFraudAlert,
})

const fraud: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/frauds/{fraudId}',
  document: {
    operationId: 'getFraud',
    tag,
    summary: 'Read a fraud alert',
    answers: { 200: { schema: wrapped('fraud', ref('Fraud')), example: { fraud: fraudExample } } },
  },
  async act(tx, { app, params }) {
    return mapResult(await ownFraud(tx, app, params['fraudId'] ?? ''), found =>
      jsonAnswer(200, { fraud: presentFraudAlert(found) }),
    )
  },
}

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
  owner: (_, { merchantId }) => merchantId,
  list: listOwnDisputes,
  present: presentDispute,
})

const dispute: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/disputes/{disputeId}',
  document: {
    operationId: 'getDispute',
    tag,
    summary: 'Read a dispute',
    answers: { 200: { schema: wrapped('dispute', ref('Dispute')), example: { dispute: disputeExample } } },
  },
  async act(tx, { app, params }) {
    return mapResult(await ownDispute(tx, app, params['disputeId'] ?? ''), found =>
      jsonAnswer(200, { dispute: presentDispute(found) }),
    )
  },
}

export const fraudEndpoints: readonly PaymentsEndpoint[] = [frauds, fraud, disputes, dispute]
