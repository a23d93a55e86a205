import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventTypes } from '@tollway/payments/operations/events.ts'
import { animationStreamRouteKind } from './animation-stream-route.ts'
import { maxShownCharacters } from './describe.ts'
import { merchantKind } from './merchant.ts'
import type { Schema } from './schema.ts'
import { readCases } from './testing/read-cases.ts'
import { validateResource, validateValue } from './validate.ts'

function problemsOf(schema: Schema, value: unknown): string[] {
  const judged = validateValue(schema, value, 'spec')
  return 'problems' in judged ? judged.problems.map(({ path, message }) => `${path}: ${message}`) : []
}

const free: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

describe('validation of any schema', () => {
  it('accepts any JSON value in a free field', () => {
    const value = { a: [1, 'b', null, { c: true }] }
    assert.deepEqual(validateValue(free, value), { value })
    assert.deepEqual(problemsOf(free, { a: [Infinity], b: new Date(0), c: 1n, 'd e': Number.NaN }), [
      'spec.a[0]: Infinity is not allowed; expected a value that JSON has',
      'spec.b: an object that JSON does not have is not allowed; expected a value that JSON has',
      'spec.c: 1 is not allowed; expected a value that JSON has',
      'spec["d e"]: NaN is not allowed; expected a value that JSON has',
    ])
  })

  it('limits the depth of free values', () => {
    let deep: unknown = 1
    for (let level = 0; level < 100_000; level++) deep = { a: deep }
    const [problem = '', ...more] = problemsOf(free, deep)
    assert.match(problem, /is nested more than 64 levels deep/)
    assert.deepEqual(more, [])
  })

  it('validates each value of a map with free names', () => {
    const schema: Schema = {
      type: 'object',
      additionalProperties: { type: 'integer', minimum: 1, maximum: 5 },
    }
    assert.deepEqual(problemsOf(schema, { a: 1, b: 6 }), [
      'spec.b: 6 is not allowed; expected a whole number from 1 to 5',
    ])
  })

  it('distinguishes items whose joined keys are equal', () => {
    const schema: Schema = {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['a', 'b'],
      items: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string', default: 'd' } } },
    }
    assert.deepEqual(problemsOf(schema, [{ a: 'x,y' }, { a: 'x', b: 'y,d' }, { a: 'x"' }]), [])
    assert.equal(problemsOf(schema, [{ a: 'x' }, { a: 'x', b: 'd' }]).length, 1)
  })

  it('shortens the found value, and never cuts a character in half', () => {
    const schema: Schema = { type: 'string', enum: ['a', 'b'] }
    for (let before = 0; before < 4; before++) {
      const [problem = ''] = problemsOf(schema, 'x'.repeat(before) + '🚦'.repeat(1000))
      const shown = problem.slice('spec: '.length, problem.indexOf(' is not'))
      assert.ok(shown.length <= maxShownCharacters && shown.isWellFormed(), shown)
    }
  })
})

const kinds = [
  { file: 'animation-stream-routes.yaml', definition: animationStreamRouteKind },
  { file: 'merchants.yaml', definition: merchantKind },
]

for (const { file, definition } of kinds) {
  describe(`all problems of a resource are reported: ${definition.kind}`, () => {
    for (const { name, resource, problems } of readCases(file, definition.kind)) {
      it(name, () => {
        const judged = validateResource(definition, resource)
        const found = 'problems' in judged ? judged.problems : []
        assert.deepEqual(
          found.map(({ path, message }) => `${path}: ${message}`),
          problems,
        )
      })
    }
  })
}

it('an empty spec of an AnimationStreamRoute has every default', () => {
  const envelope = { apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute' }
  const judged = validateResource(animationStreamRouteKind, {
    ...envelope,
    metadata: { name: 'a' },
    spec: {},
  })
  assert.deepEqual(judged, {
    value: {
      match: { sourceServiceId: '', streamIdPrefix: '', targetObjectId: '' },
      rules: { order: 'warn', timeCodes: 'warn', counts: 'warn', audio: 'warn', audioFormats: [] },
      lateJoiners: { from: 'now' },
      slowConsumers: 'wait',
      concurrentRequests: 'queue',
      limits: {
        messageBytes: 4_194_304,
        bufferBytes: 4_194_304,
        bufferSeconds: 30,
        idleSeconds: 30,
        totalSeconds: 3600,
        consumers: 1000,
        streams: 1000,
      },
    },
  })
})

it('webhooks of a Merchant can subscribe to exactly the events of the payments service', () => {
  const webhook = merchantKind.spec.properties?.['webhooks']?.items
  assert.deepEqual(webhook?.properties?.['events']?.items?.enum, [...eventTypes])
})
