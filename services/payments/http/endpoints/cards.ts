import { type CardInput, parseCard } from '../../domain/input/request-bodies.ts'
import { presentCard } from '../../domain/present.ts'
import { mapResult } from '../../domain/rejections.ts'
import { ownCard } from '../../operations/accounts/access.ts'
import { saveCard } from '../../operations/transactions/save-card.ts'
import { answer } from '../answer.ts'
import type { AppEndpoint, Endpoint } from '../endpoint.ts'
import { exampleCard, exampleIds } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Cards'

const save: AppEndpoint<CardInput> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/cards',
  document: {
    operationId: 'saveCard',
    tag,
    summary: 'Save the card of an earlier transaction',
    body: {
      schema: ref('CardInput'),
      example: { transactionId: exampleIds.transaction, notes: exampleCard.notes },
      required: true,
    },
    answers: { 201: { schema: wrapped('card', ref('Card')), example: { card: exampleCard } } },
  },
  parse: ({ body, encoding }) => parseCard(body, encoding),
  async act(tx, { payments, app, params, input }) {
    return mapResult(
      await saveCard(tx, payments, { app, merchantId: params['merchantId'] ?? '', input }),
      card => answer(201, { card: presentCard(card) }),
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
    answers: { 200: { schema: wrapped('card', ref('Card')), example: { card: exampleCard } } },
  },
  async act(tx, { app, params }) {
    return mapResult(await ownCard(tx, app, params['cardId'] ?? ''), card =>
      answer(200, { card: presentCard(card) }),
    )
  },
}

export const cardEndpoints: readonly Endpoint[] = [save, read]
