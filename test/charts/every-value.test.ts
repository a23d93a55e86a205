import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { Schema } from '@tollway/crds/schema.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { valuesSchema } from '../../charts/values-schema.ts'

const folder = join(import.meta.dirname, 'testdata')

/** These values have no effect by design. */
const withoutEffect = ['global']

test('each value of the chart is set by a golden case', () => {
  const inputs = readdirSync(folder).filter(name => name.endsWith('.in.yaml'))
  const set = new Set(
    inputs.flatMap(name => pathsOf(load(readFileSync(join(folder, name), 'utf8'), { schema: CORE_SCHEMA }))),
  )
  const missing = leavesOf(valuesSchema()).filter(path => !set.has(path) && !withoutEffect.includes(path))
  assert.deepEqual(missing, [], 'add them to a file of test/charts/testdata')
})

/** Returns the path of each value without values below it in the schema. */
function leavesOf({ properties }: Schema, path = ''): readonly string[] {
  if (properties === undefined) return [path]
  return Object.entries(properties).flatMap(([name, field]) => leavesOf(field, join(path, name)))
}

/** Returns the path of each value, and of each map that contains one. */
function pathsOf(values: unknown, path = ''): readonly string[] {
  const below = isObject(values)
    ? Object.entries(values).flatMap(([name, value]) => pathsOf(value, join(path, name)))
    : []
  return [path, ...below]
}
