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
import { healthCases } from './written-statuses.ts'

const write = process.env['GOLDEN'] === 'write'
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
      const found = healthCases(kind).map(({ name }) => {
        const inputPath = `testdata/${name}.yaml`
        return { healthStatus: runCheck(lua, folder, inputPath), inputPath }
      })
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

/** Runs the check on a resource with the interpreter. */
function runCheck(lua: string, folder: string, inputPath: string) {
  const resource = join(temporaryFolder('health'), 'resource.lua')
  writeFileSync(resource, `return ${toLua(yaml(join(folder, inputPath)))}`)
  const program = join(import.meta.dirname, 'run-health.lua')
  const { status, stdout, stderr } = spawnSync(lua, [program, join(folder, 'health.lua'), resource], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  const [health = '', message = ''] = stdout.split(/\n(.*)/s)
  return { status: health, message }
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
