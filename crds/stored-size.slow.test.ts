import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../test/support/kube-api-server.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { customResourceDefinition } from './generation/definition.ts'
import { rateLimitConfigKind } from './rate-limit-config.ts'
import { countStoredBytes, maxStoredBytes, validateRateLimitConfig } from './validate-rate-limit-config.ts'

type Shape = (rules: number) => readonly object[]

const flat: Shape = rules =>
  Array.from({ length: rules }, (_, index) => ({
    key: 'user',
    value: `user-${index}`,
    rateLimit: { unit: 'minute', requestsPerUnit: 100 },
  }))

/** Descriptors without a value, each of which has 100 rules with long values below it. */
const nested: Shape = rules =>
  Array.from({ length: Math.ceil(rules / 100) }, (_, index) => ({
    key: `tenant-${index}`,
    descriptors: Array.from({ length: 100 }, (_, below) => ({
      key: 'path',
      value: `/api/v1/${'orders/'.repeat(20)}${below}`,
      shadowMode: true,
      rateLimit: { unit: 'second', requestsPerUnit: 10, name: `rule-${below}` },
    })),
  }))

const resource = (descriptors: readonly object[]) => ({
  apiVersion: 'tollway.dev/v1alpha1',
  kind: 'RateLimitConfig',
  metadata: { name: 'large' },
  spec: { domain: 'large', descriptors },
})

const isValid = (shape: Shape, rules: number) => 'value' in validateRateLimitConfig(resource(shape(rules)))

/** Returns the largest number of rules, in steps of 100, with which the resource is valid. */
function mostRules(shape: Shape): number {
  let [least, most] = [1, 100]
  while (most - least > 1) {
    const middle = Math.floor((least + most) / 2)
    if (isValid(shape, middle * 100)) least = middle
    else most = middle
  }
  return least * 100
}

describe('the largest valid resources fit an API server', {
  skip: missingKubeAssets(),
  timeout: 100_000,
}, () => {
  const path = '/apis/tollway.dev/v1alpha1/namespaces/default/ratelimitconfigs'
  let api: KubeApiServer

  before(async () => {
    api = await startKubeApiServer()
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    await api.call('POST', definitions, customResourceDefinition(rateLimitConfigKind))
    await waitFor('the kind to be served', async () => (await api.call('GET', path)).status === 200)
  })
  after(async () => {
    await api?.stop()
  })

  const apply = async (shape: Shape, rules: number) => {
    await api.call('DELETE', `${path}/large`)
    const answer = await api.call(
      'PATCH',
      `${path}/large?fieldManager=test&force=true`,
      resource(shape(rules)),
    )
    return answer.status
  }

  for (const shape of [flat, nested]) {
    it(`accepts as many ${shape.name} rules as are valid`, async () => {
      const rules = mostRules(shape)
      assert.equal(await apply(shape, rules), 201, `${rules} rules`)
    })
  }

  it('rejects 7 % more rules than are valid, so that the limit is not too low', async () => {
    const rules = Math.ceil((mostRules(flat) * 1.07) / 100) * 100
    assert.equal(await apply(flat, rules), 500, `${rules} rules`)
  })
})

it('the stored size is the length of the JSON plus that of the field names in managedFields', () => {
  const spec = { domain: 'a', descriptors: [{ key: 'b' }] }
  const noted =
    '"f:domain":{},"f:descriptors":{},"k:{\\"key\\":\\"b\\",\\"value\\":\\"\\"}":{".":{}},"f:key":{},'
  const filledIn = '"value":"","f:value":{},'
  assert.equal(countStoredBytes(spec), JSON.stringify(spec).length + noted.length + filledIn.length)
  assert.ok(countStoredBytes(resource(flat(6_000)).spec) < maxStoredBytes)
})
