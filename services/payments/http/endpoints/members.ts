import { record } from '../../domain/input/record.ts'
import { parseAssociation, parseMember } from '../../domain/input/request-bodies.ts'
import { presentApp, presentUser } from '../../domain/present.ts'
import { mapResult } from '../../domain/rejections.ts'
import { associateApp, dissociateApp, inviteUser, removeUser } from '../../operations/accounts/memberships.ts'
import { listOwnApps, listOwnUsers } from '../../operations/lists.ts'
import { jsonAnswer, noContent } from '../answer.ts'
import type { AppCall, AppEndpoint, PaymentsEndpoint } from '../endpoint.ts'
import { listEndpoint } from '../list-endpoint.ts'
import { appExample, userExample } from '../openapi/examples.ts'
import { ref, wrapped } from '../openapi/schemas.ts'

const tag = 'Members'
const readMerchantId = (params: AppCall['params']) => params['merchantId'] ?? ''

const invite: AppEndpoint<{ readonly email: string }> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/users',
  document: {
    operationId: 'inviteUser',
    tag,
    summary: 'Invite a person',
    description: 'Sends an e-mail to a person who is not a member yet.',
    body: { schema: ref('Invitation'), example: { email: userExample.email }, required: true },
    answers: { 201: { schema: wrapped('user', ref('User')), example: { user: userExample } } },
  },
  parse: ({ body, encoding }) => parseMember(body, encoding),
  async act(tx, { payments, app, params, input: { email } }) {
    return mapResult(
      await inviteUser(tx, payments, { app, merchantId: readMerchantId(params), email }),
      user => jsonAnswer(201, { user: presentUser(user) }),
    )
  },
}

const revokeUser: AppEndpoint = {
  kind: 'app',
  method: 'DELETE',
  path: '/merchants/{merchantId}/users/{userId}',
  document: {
    operationId: 'revokeUser',
    tag,
    summary: 'End a person’s membership',
    answers: { 204: null },
  },
  async act(tx, { app, params }) {
    const userId = params['userId'] ?? ''
    return mapResult(
      await removeUser(tx, { app, merchantId: readMerchantId(params), userId }),
      () => noContent,
    )
  },
}

const users = listEndpoint({
  path: '/merchants/{merchantId}/users',
  operationId: 'listUsers',
  tag,
  summary: 'List the members of a merchant',
  filter: record({}),
  item: { schema: ref('User'), example: userExample },
  owner: readMerchantId,
  list: listOwnUsers,
  present: presentUser,
})

const addApp: AppEndpoint<{ readonly appId: string }> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/apps',
  document: {
    operationId: 'addApp',
    tag,
    summary: 'Give an app full access to a merchant',
    body: { schema: ref('Association'), example: { appId: appExample.id }, required: true },
    answers: { 201: { schema: wrapped('app', ref('App')), example: { app: appExample } } },
  },
  parse: ({ body, encoding }) => parseAssociation(body, encoding),
  async act(tx, { app, params, input: { appId } }) {
    return mapResult(await associateApp(tx, { app, merchantId: readMerchantId(params), appId }), added =>
      jsonAnswer(201, { app: presentApp(added) }),
    )
  },
}

const revokeApp: AppEndpoint = {
  kind: 'app',
  method: 'DELETE',
  path: '/merchants/{merchantId}/apps/{appId}',
  document: {
    operationId: 'revokeApp',
    tag,
    summary: 'End an app’s access to a merchant',
    answers: { 204: null },
  },
  async act(tx, { app, params }) {
    const appId = params['appId'] ?? ''
    return mapResult(
      await dissociateApp(tx, { app, merchantId: readMerchantId(params), appId }),
      () => noContent,
    )
  },
}

const apps = listEndpoint({
  path: '/merchants/{merchantId}/apps',
  operationId: 'listApps',
  tag,
  summary: 'List the apps of a merchant',
  filter: record({}),
  item: { schema: ref('App'), example: appExample },
  owner: readMerchantId,
  list: listOwnApps,
  present: presentApp,
})

export const memberEndpoints: readonly PaymentsEndpoint[] = [
  invite,
  revokeUser,
  users,
  addApp,
  revokeApp,
  apps,
]
