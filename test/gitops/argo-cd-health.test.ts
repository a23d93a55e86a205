import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { CORE_SCHEMA, dump, load } from 'js-yaml'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { factCombinations, healthCases } from './written-statuses.ts'

const write = process.env['GOLDEN'] === 'write'
const maxOutputBytes = 16 * 1024 * 1024
const argoCd = join(root, 'examples/gitops/argo-cd')
const folderOf = (kind: string) => join(argoCd, 'resource_customizations/tollway.dev', kind)
const yaml = (path: string) => load(readFileSync(path, 'utf8'), { schema: CORE_SCHEMA })

interface HealthTests {
  readonly tests: readonly {
    readonly healthStatus: { readonly status: string; readonly message: string }
    readonly inputPath: string
  }[]
}

for (const { kind } of resourceKinds) {
  describe(`the health check of ${kind} for Argo CD`, () => {
    const folder = folderOf(kind)
    const testdata = join(folder, 'testdata')

    it('covers the statuses that the operator writes', () => {
      if (write) mkdirSync(testdata, { recursive: true })
      const expected = healthCases(kind).map(({ name, resource }) => {
        const path = join(testdata, `${name}.yaml`)
        const text = dump(resource, { lineWidth: 110, noRefs: true })
        if (write) writeFileSync(path, text)
        assert.ok(existsSync(path), `${path} is missing; make golden writes it`)
        assert.equal(readFileSync(path, 'utf8'), text, `${path} differs; make golden rewrites it`)
        return `${name}.yaml`
      })
      assert.deepEqual(readdirSync(testdata).sort(), expected.sort())
    })

    it('reports the health of each status, in Lua 5.1', t => {
      const lua = requireProgram(t, 'lua5.1')
      if (lua === false) return
      const paths = healthCases(kind).map(({ name }) => `testdata/${name}.yaml`)
      const healths = runCheck(
        lua,
        folder,
        paths.map(inputPath => yaml(join(folder, inputPath))),
      )
      const found = paths.map((inputPath, index) => ({ healthStatus: healths[index], inputPath }))
      const path = join(folder, 'health_test.yaml')
      if (write) writeFileSync(path, dump({ tests: found }, { lineWidth: 110 }))
      const { tests } = yaml(path) as HealthTests
      assert.deepEqual(found, tests)
      // The file's name begins with the expected health.
      for (const { healthStatus, inputPath } of tests) {
        const [expected] = inputPath.replace('testdata/', '').split('_')
        assert.equal(healthStatus.status.toLowerCase(), expected, inputPath)
        assert.notEqual(healthStatus.message, '', inputPath)
      }
    })
  })
}

test('is Healthy only while each process that takes calls enforces the present generation', t => {
  const lua = requireProgram(t, 'lua5.1')
  if (lua === false) return
  const combinations = factCombinations()
  const resources = combinations.map(({ resource }) => resource)
  const healths = runCheck(lua, folderOf('RateLimitConfig'), resources)
  assert.equal(healths.length, combinations.length)
  const healthy = combinations.filter((_, index) => healths[index]?.status === 'Healthy')
  assert.ok(healthy.length > 0)
  for (const { facts, isPresent } of healthy) {
    const { running, enforcing, inForce, rejections, problems } = facts
    const isEnforced = isPresent && inForce === 'present' && running > 0 && enforcing === running
    assert.ok(isEnforced && rejections.length + problems.length === 0, JSON.stringify(facts))
  }
})

test('is the same for all kinds', () => {
  const checks = resourceKinds.map(({ kind }) => readFileSync(join(folderOf(kind), 'health.lua'), 'utf8'))
  assert.equal(new Set(checks).size, 1)
})

test('the ConfigMap for Argo CD has the checks of all kinds', () => {
  const path = join(argoCd, 'argocd-cm.yaml')
  const { data } = yaml(path) as { data: Record<string, string> }
  const fresh = Object.fromEntries(
    resourceKinds.map(({ kind }) => [
      `resource.customizations.health.tollway.dev_${kind}`,
      readFileSync(join(folderOf(kind), 'health.lua'), 'utf8'),
    ]),
  )
  if (write) {
    const metadata = {
      name: 'argocd-cm',
      namespace: 'argocd',
      labels: { 'app.kubernetes.io/part-of': 'argocd' },
    }
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { ...data, ...fresh } }
    writeFileSync(path, dump(configMap, { lineWidth: 130 }))
  }
  assert.partialDeepStrictEqual((yaml(path) as { data: object }).data, fresh)
})

/** Runs the check on each resource with the interpreter. */
function runCheck(lua: string, folder: string, resources: readonly unknown[]) {
  const list = join(temporaryFolder('health'), 'resources.lua')
  writeFileSync(list, `return ${toLua(resources)}`)
  const program = join(import.meta.dirname, 'run-health.lua')
  const { status, stdout, stderr } = spawnSync(lua, [program, join(folder, 'health.lua'), list], {
    encoding: 'utf8',
    maxBuffer: maxOutputBytes,
  })
  assert.equal(status, 0, stderr)
  return Array.from(stdout.matchAll(/([^\0]*)\0([^\0]*)\0/g), ([, health = '', message = '']) => ({
    status: health,
    message,
  }))
}

/** Returns the value as an expression of Lua. */
function toLua(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(toLua).join(', ')}}`
  if (isObject(value)) {
    const fields = Object.entries(value).map(([name, field]) => `[${JSON.stringify(name)}] = ${toLua(field)}`)
    return `{${fields.join(', ')}}`
  }
  return JSON.stringify(value)
}
