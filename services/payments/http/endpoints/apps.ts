import { booleanFlag } from '../../domain/input/fields.ts'
import { described, optionalField, record } from '../../domain/input/record.ts'
import { type AppInput, parseApp } from '../../domain/input/request-bodies.ts'
import { presentApp, presentMerchant, presentNewApp } from '../../domain/present.ts'
import { accept } from '../../domain/rejections.ts'
import { createApp } from '../../operations/accounts/create-app.ts'
import { listOwnMerchants } from '../../operations/lists.ts'
import { jsonAnswer } from '../answer.ts'
import type { AppEndpoint, PaymentsEndpoint, SignUpEndpoint } from '../endpoint.ts'
import { listEndpoint } from '../get-endpoints.ts'
import { appExample, merchantExample, newAppExample } from '../openapi/examples.ts'
import { answerWith, ref } from '../openapi/schemas.ts'

const tag = 'Apps'

const create: SignUpEndpoint<AppInput> = {
  kind: 'sign-up',
  method: 'POST',
  path: '/apps',
  document: {
    operationId: 'createApp',
    tag,
    summary: 'Create an app',
    description:
      'Needs no API key. The answer has the key of the app, which is not shown again. An Idempotency-Key ' +
      'protects the answer, and therefore needs at least 128 random bits.',
    body: { schema: ref('AppInput'), example: { name: appExample.name }, required: false },
    answers: { 201: answerWith('app', { schema: ref('NewApp'), example: newAppExample }) },
  },
  parse: ({ body, encoding }) => parseApp(body, encoding),
  async act(tx, { payments, input }) {
    const { app, key } = await createApp(tx, payments, input)
    return accept(jsonAnswer(201, { app: presentNewApp(app, key) }))
  },
}

const me: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/me',
  document: {
    operationId: 'getIdentity',
    tag,
    summary: 'Read the app of the API key',
    answers: { 200: answerWith('identity', { schema: ref('App'), example: appExample }) },
  },
  act: async (_, { app }) => accept(jsonAnswer(200, { identity: presentApp(app) })),
}

const merchants = listEndpoint({
  path: '/identities/{appId}/merchants',
  operationId: 'listMerchants',
  tag,
  summary: 'List the merchants of an app',
  filter: record({
    test: optionalField(described(booleanFlag, 'Only test accounts (yes), or only live accounts (no).')),
  }),
  item: { schema: ref('Merchant'), example: merchantExample },
  list: listOwnMerchants,
  present: presentMerchant,
})

export const appEndpoints: readonly PaymentsEndpoint[] = [create, me, merchants]
