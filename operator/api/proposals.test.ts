import assert from 'node:assert/strict'
import { test } from 'node:test'
import { playedResource, serveApi } from '../testing/serve-api.ts'
import type { CallerAuthentication } from './access.ts'
import { ApiError } from './errors.ts'
import { whatIfBodyExample } from './examples.ts'
import type { WhatIfAnswer } from './shapes.ts'

const rival = { ...whatIfBodyExample, metadata: { namespace: 'bank', name: 'rival' } }
const taken = '"checkout" belongs to shop/checkout, which is older; name another'
const limits = ['minute', 'hour'].map(unit => ({ name: 'shared', unit, requestsPerUnit: 5 }))
const doubtful = {
  ...whatIfBodyExample,
  spec: { domain: 'checkout', descriptors: [{ key: 'user', limits }] },
}
const shared = "the limits share the name 'shared', and therefore their statistics"
const calls = [
  { path: '/whatif', bodyOf: (resource: object): object => resource },
  { path: '/apply', bodyOf: (resource: object): object => ({ resource, dryRun: true }) },
]

for (const { path, bodyOf } of calls) {
  test(`${path}: a domain of another resource is a problem, as tollway validate reports it`, async t => {
    const { post } = await serveApi(t)
    const { status, body } = await post(path, bodyOf(rival))
    assert.equal(status, 400)
    assert.deepEqual(body.error.problems, [{ field: 'spec.domain', message: taken }])
    assert.equal((await post(path, bodyOf(whatIfBodyExample))).status, 200, 'its own domain')
  })

  test(`${path}: an existing resource, which may be older, is warned about a domain of another`, async t => {
    const { post } = await serveApi(t, { more: [playedResource('RateLimitConfig', 'bank', 'rival')] })
    const { status, body } = await post(path, bodyOf(rival))
    assert.equal(status, 200, JSON.stringify(body))
    const { warnings } = body as unknown as WhatIfAnswer
    const message = '"checkout" belongs to shop/checkout, unless this resource is older'
    assert.deepEqual(warnings, [{ field: 'spec.domain', message }])
  })

  test(`${path}: a domain that is kept for other namespaces is a problem, also for its owner`, async t => {
    const { post } = await serveApi(t, { domainGrants: new Map([['checkout', ['bank', 'till']]]) })
    const { status, body } = await post(path, bodyOf(whatIfBodyExample))
    assert.equal(status, 400)
    const message =
      '"checkout" is kept for the namespaces bank, till; name another, or ask who runs the operator'
    assert.deepEqual(body.error.problems, [{ field: 'spec.domain', message }])
  })

  test(`${path}: a caller without the right does not learn the owner`, async t => {
    const access: CallerAuthentication = {
      authenticate: async () => ({
        name: 'eve',
        async authorize() {
          throw new ApiError('forbidden', 'eve may not')
        },
      }),
    }
    const { post } = await serveApi(t, { access })
    assert.deepEqual((await post(path, bodyOf(rival))).body.error, {
      code: 'forbidden',
      message: 'eve may not',
    })
  })

  test(`${path}: the answer has the warnings of a valid resource`, async t => {
    const { post } = await serveApi(t)
    const { status, body } = await post(path, bodyOf(doubtful))
    assert.equal(status, 200, JSON.stringify(body))
    const { warnings } = body as unknown as WhatIfAnswer
    assert.deepEqual(warnings, [{ field: 'spec.descriptors[0].limits[1].name', message: shared }])
  })
}
