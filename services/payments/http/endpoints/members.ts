import { record } from '../../domain/input/record.ts'
import { parseAssociation, parseMember } from '../../domain/input/request-bodies.ts'
import { presentApp, presentUser } from '../../domain/present.ts'
import { mapResult } from '../../domain/rejections.ts'
import { associateApp, dissociateApp, inviteUser, removeUser } from '../../operations/accounts/memberships.ts'
import { listOwnApps, listOwnUsers } from '../../operations/lists.ts'
import { jsonAnswer, noContent } from '../answer.ts'
import type { AppEndpoint, PaymentsEndpoint } from '../endpoint.ts'
import { listEndpoint } from '../get-endpoints.ts'
import { appExample, userExample } from '../openapi/examples.ts'
import { answerWith, ref } from '../openapi/schemas.ts'

const tag = 'Members'

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
    answers: { 201: answerWith('user', { schema: ref('User'), example: userExample }) },
  },
  parse: ({ body, encoding }) => parseMember(body, encoding),
  async act(tx, { payments, app, param, input: { email } }) {
    return mapResult(await inviteUser(tx, payments, { app, merchantId: param('merchantId'), email }), user =>
      jsonAnswer(201, { user: presentUser(user) }),
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
  async act(tx, { app, param }) {
    const userId = param('userId')
    return mapResult(await removeUser(tx, { app, merchantId: param('merchantId'), userId }), () => noContent)
  },
}

const users = listEndpoint({
  path: '/merchants/{merchantId}/users',
  operationId: 'listUsers',
  tag,
  summary: 'List the members of a merchant',
  filter: record({}),
  item: { schema: ref('User'), example: userExample },
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
    answers: { 201: answerWith('app', { schema: ref('App'), example: appExample }) },
  },
  parse: ({ body, encoding }) => parseAssociation(body, encoding),
  async act(tx, { app, param, input: { appId } }) {
    return mapResult(await associateApp(tx, { app, merchantId: param('merchantId'), appId }), added =>
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
  async act(tx, { app, param }) {
    const appId = param('appId')
    return mapResult(
      await dissociateApp(tx, { app, merchantId: param('merchantId'), appId }),
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
