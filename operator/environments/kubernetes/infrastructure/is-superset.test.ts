import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { load } from 'js-yaml'
import { isSuperset } from './is-superset.ts'

/**
 * Each row: a field, its desired value, and a live value that suffices. A dash stands for a missing value.
 */
const enough = `
  a: 1 | 1
  map: {a: 1} | {a: 1, b: 2}
  emptyDir: {} | -
  annotations: {} | {theirs: x}
  labels: {a: x} | {a: x, b: y}
  env: [] | [{name: A}]
  env: [{name: A, value: ""}] | [{name: A}]
  env: [{name: A, value: x}, {name: B}] | [{name: C}, {name: B}, {name: A, value: x}]
  containers: [{name: a, image: x}] | [{name: proxy}, {name: a, image: x, tty: false}]
  ports: [{port: 1, protocol: TCP}] | [{port: 1, protocol: UDP}, {port: 1, protocol: TCP, nodePort: 3}]
  selector: {a: x} | {a: x}
  podSelector: {} | {}
  ingress: [] | -
  ingress: [{ports: [{port: 1, protocol: TCP}]}] | [{ports: [{protocol: TCP, port: 1}]}]
  requests: {cpu: 0.5, memory: 1024Mi} | {cpu: 500m, memory: 1Gi}
  sizeLimit: 0.25Gi | 256Mi
`
const notEnough = `
  a: 1 | "1"
  map: {b: 1} | {}
  automountServiceAccountToken: false | -
  securityContext: {runAsUser: 0} | -
  env: [{name: A, value: ""}] | [{name: A, value: x}]
  env: [{name: A, value: x}] | [{name: B, value: x}]
  env: [{name: A, value: "1000m"}] | [{name: A, value: "1"}]
  ports: [{containerPort: 1, protocol: TCP}] | [{containerPort: 2, protocol: TCP}]
  ports: [{port: 1, protocol: TCP, targetPort: a}] | [{port: 1, protocol: TCP, targetPort: b}]
  selector: {a: x} | {a: x, b: y}
  podSelector: {} | {matchLabels: {a: x}}
  ingress: [] | [{}]
  ingress: [{ports: [{port: 1}]}] | [{ports: [{port: 1}, {port: 2}]}]
  ingress: [{ports: [{port: 1}]}] | [{ports: [{port: 1}], from: []}]
  drop: [ALL] | [ALL, X]
  tolerations: [{key: a}, {key: b}] | [{key: b}, {key: a}]
  requests: {cpu: 1} | {cpu: 2}
  limits: {cpu: 1} | -
`

test('a live object is or is not a superset of the desired one', () => {
  for (const [table, outcome] of [
    [enough, true],
    [notEnough, false],
  ] as const) {
    for (const line of table.trim().split('\n')) {
      const [, field = '', wanted = '', live = ''] = /^ *(\w+): (.*) \| (.*)$/.exec(line) ?? []
      const there = live === '-' ? {} : { [field]: load(live) }
      assert.equal(isSuperset(there, { [field]: load(wanted) }), outcome, line)
    }
  }
})

const objects = join(import.meta.dirname, 'objects/testdata/objects')
const wantedObjects = readdirSync(objects)
  .filter(name => name.endsWith('.out.yaml'))
  .flatMap(name => load(readFileSync(join(objects, name), 'utf8')) as unknown[])

test('every object is a superset of itself', () => {
  for (const object of wantedObjects) assert.ok(isSuperset(structuredClone(object), object))
})

/** Returns the paths of all texts and numbers in a value. */
function leavesOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, [...path, name]))
}

test('a change of any text or number of an object is detected', () => {
  const change = fc
    .constantFrom(...wantedObjects)
    .chain(wanted => fc.record({ wanted: fc.constant(wanted), path: fc.constantFrom(...leavesOf(wanted)) }))
  fc.assert(
    fc.property(change, fc.constantFrom('changed', -1, undefined), ({ wanted, path }, replacement) => {
      const live = structuredClone(wanted) as Record<string, unknown>
      let installation = live
      for (const name of path.slice(0, -1)) installation = installation[name] as Record<string, unknown>
      const last = path.at(-1) ?? ''
      fc.pre(installation[last] !== '')
      installation[last] = replacement
      assert.ok(!isSuperset(live, wanted), path.join('.'))
    }),
    { numRuns: 500 },
  )
})

test('quantities are compared by their values, not their spellings', () => {
  const isSame = (a: unknown, b: unknown) => isSuperset({ limits: { cpu: a } }, { limits: { cpu: b } })
  const table = `
    0.5      500m       equal
    1        1000m      equal
    .25Gi    256Mi      equal
    1e3      1k         equal
    1E3      1k         equal
    1E       1000P      equal
    100u     0.0001     equal
    1Ki      1024       equal
    1k       1Ki        different
    500m     501m       different
    1        1Gi        different
    cpu      cpu        equal
    cpu      memory     different
    1x       1          different
    1Ki      1Kii       different
  `
  for (const [a = '', b = '', outcome] of table
    .trim()
    .split('\n')
    .map(line => line.trim().split(/\s+/))) {
    assert.equal(isSame(a, b) ? 'equal' : 'different', outcome, `${a} and ${b}`)
    assert.equal(isSame(b, a) ? 'equal' : 'different', outcome, `${b} and ${a}`)
  }
  assert.ok(isSame(2, '2'))
  assert.ok(!isSame(undefined, '0'))
})
