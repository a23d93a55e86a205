import { flag } from '../../domain/input/fields.ts'
import { optional, record } from '../../domain/input/record.ts'
import { parseApp } from '../../domain/input/request-bodies.ts'
import { presentApp, presentMerchant, presentNewApp } from '../../domain/present.ts'
import { isRefused } from '../../domain/refusals.ts'
import { createApp } from '../../operations/accounts/create-app.ts'
import { listOwnMerchants } from '../../operations/lists.ts'
import { answer } from '../answer.ts'
import type { AppEndpoint, Endpoint, SignUpEndpoint } from '../endpoint.ts'
import { listEndpoint } from '../list-endpoint.ts'
import { exampleApp, exampleMerchant, exampleNewApp } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Apps'

const create: SignUpEndpoint = {
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
    body: { schema: ref('AppInput'), example: { name: exampleApp.name }, required: false },
    answers: { 201: { schema: wrapped('app', ref('NewApp')), example: { app: exampleNewApp } } },
  },
  async act(tx, { payments, body, encoding }) {
    const input = parseApp(body, encoding)
    if (isRefused(input)) return input
    const { app, key } = await createApp(tx, payments, input)
    return answer(201, { app: presentNewApp(app, key) })
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
    answers: { 200: { schema: wrapped('identity', ref('App')), example: { identity: exampleApp } } },
  },
  act: async (_, { app }) => answer(200, { identity: presentApp(app) }),
}

const merchants = listEndpoint({
  path: '/identities/{appId}/merchants',
  operationId: 'listMerchants',
  tag,
  summary: 'List the merchants of an app',
  filter: record({ test: optional(flag) }),
  filters: [
    {
      name: 'filter[test]',
      description: 'Only test accounts (yes), or only live accounts (no).',
      required: false,
      schema: { enum: ['yes', 'no', 'y', 'n', 'true', 'false', '1', '0'] },
    },
  ],
  item: { schema: ref('Merchant'), example: exampleMerchant },
  owner: ({ params }) => params['appId'] ?? '',
  list: listOwnMerchants,
  present: presentMerchant,
})

export const appEndpoints: readonly Endpoint[] = [create, me, merchants]
