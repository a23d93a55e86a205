import { parseCard, type SaveCardInput } from '../../domain/input/request-bodies.ts'
import { presentCard } from '../../domain/present.ts'
import { mapResult } from '../../domain/rejections.ts'
import { ownCard } from '../../operations/accounts/access.ts'
import { saveCard } from '../../operations/transactions/save-card.ts'
import { jsonAnswer } from '../answer.ts'
import type { AppEndpoint, PaymentsEndpoint } from '../endpoint.ts'
import { cardExample, exampleIds } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Cards'

const save: AppEndpoint<SaveCardInput> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/cards',
  document: {
    operationId: 'saveCard',
    tag,
    summary: 'Save the card of an earlier transaction',
    body: {
      schema: ref('CardInput'),
      example: { transactionId: exampleIds.transaction, notes: cardExample.notes },
      required: true,
    },
    answers: { 201: { schema: wrapped('card', ref('Card')), example: { card: cardExample } } },
  },
  parse: ({ body, encoding }) => parseCard(body, encoding),
  async act(tx, { payments, app, params, input }) {
    return mapResult(
      await saveCard(tx, payments, { app, merchantId: params['merchantId'] ?? '', input }),
      card => jsonAnswer(201, { card: presentCard(card) }),
    )
  },
}

const read: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/cards/{cardId}',
  document: {
    operationId: 'getCard',
    tag,
    summary: 'Read a saved card',
    answers: { 200: { schema: wrapped('card', ref('Card')), example: { card: cardExample } } },
  },
  async act(tx, { app, params }) {
    return mapResult(await ownCard(tx, app, params['cardId'] ?? ''), card =>
      jsonAnswer(200, { card: presentCard(card) }),
    )
  },
}

export const cardEndpoints: readonly PaymentsEndpoint[] = [save, read]
