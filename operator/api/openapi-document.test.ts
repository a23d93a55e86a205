import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Value from 'typebox/value'
import { type ApiEndpoint, apiEndpoints } from './endpoints.ts'
import { errorAnswerExample as errorExample } from './examples.ts'
import { openApiDocument } from './openapi-document.ts'
import { errorAnswer } from './shapes.ts'

describe('the OpenAPI document', () => {
  for (const endpoint of apiEndpoints as readonly ApiEndpoint[]) {
    test(`has an example of ${endpoint.method} ${endpoint.path} that its schema allows`, () => {
      assert.deepEqual(Value.Errors(endpoint.answer, endpoint.example), [])
      if (endpoint.body) assert.deepEqual(Value.Errors(endpoint.body.schema, endpoint.body.example), [])
    })

    test(`has the parameters of ${endpoint.method} ${endpoint.path}`, () => {
      const inPath = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const listed = endpoint.parameters.filter(parameter => parameter.in === 'path')
      assert.deepEqual(
        listed.map(({ name }) => name),
        inPath,
      )
    })
  }

  test('has an example of an error that its schema allows', () => {
    assert.deepEqual(Value.Errors(errorAnswer, errorExample), [])
  })

  test('is JSON with every path of the API', () => {
    const document = JSON.parse(JSON.stringify(openApiDocument())) as ReturnType<typeof openApiDocument>
    assert.equal(document.openapi, '3.1.0')
    assert.deepEqual(Object.keys(document.paths), [
      '/api/v1/openapi.json',
      '/api/v1/domains',
      '/api/v1/domains/{domain}/rules',
      '/api/v1/counters',
      '/api/v1/counters/reset',
      '/api/v1/counters/raise',
      '/api/v1/domains/{domain}/top',
      '/api/v1/history',
      '/api/v1/series',
      '/api/v1/tap',
      '/api/v1/whatif',
      '/api/v1/try',
      '/api/v1/apply',
      '/api/v1/manifest',
      '/api/v1/rights',
      '/api/v1/version',
      '/api/v1/resources',
      '/api/v1/streams',
      '/api/v1/streams/preview',
      '/api/v1/merchants',
    ])
  })
})
