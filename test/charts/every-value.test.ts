import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { Schema } from '@tollway/crds/schema.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { valuesSchema } from '../../charts/values-schema.ts'
import { chart } from './helm.ts'

const folder = join(import.meta.dirname, 'testdata')

/** These values have no effect by design. */
const withoutEffect = ['global']

test('each value of the chart has another value than its default in a golden case', () => {
  const inputs = readdirSync(folder).filter(name => name.endsWith('.in.yaml'))
  const cases = inputs.map(name => read(join(folder, name)))
  const defaults = read(join(chart, 'values.yaml'))
  const isSet = (path: Path) =>
    cases
      .map(values => at(values, path))
      .some(value => !isDeepStrictEqual(value ?? at(defaults, path), at(defaults, path)))
  const missing = leavesOf(valuesSchema())
    .filter(path => !isSet(path))
    .map(path => path.join('.'))
  assert.deepEqual(missing, withoutEffect, 'add them to a file of test/charts/testdata')
})

type Path = readonly string[]

const read = (file: string): unknown => load(readFileSync(file, 'utf8'), { schema: CORE_SCHEMA })

/** Returns the path of each value without values below it in the schema. */
function leavesOf({ properties }: Schema, path: Path = []): readonly Path[] {
  if (properties === undefined) return [path]
  return Object.entries(properties).flatMap(([name, field]) => leavesOf(field, [...path, name]))
}

/** Returns the value at the path; undefined if there is none. */
const at = (values: unknown, path: Path): unknown =>
  path.reduce((below, name) => (isObject(below) ? below[name] : undefined), values)
