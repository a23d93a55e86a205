import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { rateLimitConfigKind } from '../rate-limit-config.ts'
import { resourceKinds } from '../resource-kinds.ts'
import type { Schema } from '../schema.ts'
import { customResourceDefinition } from './definition.ts'

/** Yields every field of spec and status with its path: `spec.descriptors[].key`. */
function* fieldsOf(schema: Schema, path: string): Generator<readonly [string, Schema]> {
  yield [path, schema]
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    yield* fieldsOf(field, path === '' ? name : `${path}.${name}`)
  }
  if (schema.items !== undefined) yield* fieldsOf(schema.items, `${path}[]`)
  if (schema.additionalProperties !== undefined) yield* fieldsOf(schema.additionalProperties, `${path}.*`)
}

for (const kind of resourceKinds) {
  const fields = [...fieldsOf(kind.spec, 'spec'), ...fieldsOf(kind.status, 'status')]

  describe(`the definition of ${kind.kind}`, () => {
    it('describes every field', () => {
      const silent = fields.filter(([, { description = '' }]) => !/^[A-Z0].*[.:\w]$/s.test(description))
      assert.deepEqual(
        silent.map(([path]) => path),
        [],
      )
    })

    it('bounds every string, list and free map', () => {
      const boundless = fields.filter(([, field]) => {
        const { type, maxLength, maxItems, maxProperties, properties } = field
        if (type === 'string') return maxLength === undefined && field.enum === undefined
        if (type === 'array') return maxItems === undefined
        return type === 'object' && properties === undefined && maxProperties === undefined
      })
      // A list below the last level needs no bound, since it must be empty.
      const shown = boundless.map(([path]) => path).filter(path => !path.endsWith('.descriptors[]'))
      assert.deepEqual(shown, [])
    })

    it('is JSON', () => {
      const definition = customResourceDefinition(kind)
      assert.deepEqual(JSON.parse(JSON.stringify(definition)), definition)
    })
  })
}

it('a RateLimitConfig has the documented number of levels of descriptors', () => {
  const levels = [...fieldsOf(rateLimitConfigKind.spec, 'spec')].filter(([path]) =>
    /^spec(\.descriptors\[\])+\.key$/.test(path),
  )
  assert.equal(levels.length, 8)
})

it('the generator rejects a keyword that validation ignores', () => {
  const odd: Schema & { readonly uniqueItems: boolean } = { type: 'array', uniqueItems: true }
  const kind = { ...rateLimitConfigKind, spec: { type: 'object', properties: { odd } } as const }
  assert.throws(() => customResourceDefinition(kind), /uniqueItems/)
})
