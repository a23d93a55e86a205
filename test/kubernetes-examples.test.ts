import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CORE_SCHEMA, dump, loadAll } from 'js-yaml'
import { translateRateLimitConfig } from '../operator/kinds/rate-limit-config/translate-rate-limit-config.ts'
import { envoyListener, routerFilter } from './e2e/envoy-listener.ts'
import { requireProgram } from './support/require-server.ts'
import { temporaryFolder } from './support/temporary-folder.ts'
import { root } from './support/tollway.ts'

const examples = join(root, 'examples/kubernetes')

interface Resource {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: {
    readonly timeoutPolicy?: { readonly response: string }
    readonly configPatches?: readonly { readonly patch: { readonly value: object } }[]
    readonly jsonPatches?: readonly { readonly operation: { readonly value: object } }[]
  }
}

function resourcesOf(file: string): readonly Resource[] {
  return loadAll(readFileSync(join(examples, file), 'utf8'), { schema: CORE_SCHEMA }) as readonly Resource[]
}

/** Returns the cluster, the filter and the fields of the virtual host that an example adds to an Envoy. */
function patchesOf(file: string): readonly [cluster: object, filter: object, virtualHost: object] {
  const [{ spec } = {}] = resourcesOf(file)
  const values =
    spec?.configPatches?.map(({ patch }) => patch.value) ??
    spec?.jsonPatches?.map(({ operation }) => operation.value)
  const [cluster, filter, host] = values ?? []
  assert.ok(cluster && filter && host, `${file} has three patches`)
  return [cluster, filter, Array.isArray(host) ? { rate_limits: host } : host]
}

test('the application example has the Envoy configuration of docs/tasks/install.md', () => {
  const page = readFileSync(join(root, 'docs/tasks/install.md'), 'utf8')
  const [, documented = ''] = /```yaml\n# envoy.yaml\n(.*?)```/s.exec(page) ?? []
  const resources = resourcesOf('application/application.yaml')
  const config = resources.find(({ metadata }) => metadata.name === 'checkout-envoy')?.data?.['envoy.yaml']
  assert.equal(config, documented)
})

test('the limits of the examples are valid', () => {
  const files = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(file =>
    /yaml$/.test(file),
  )
  const limits = files.flatMap(resourcesOf).filter(({ kind }) => kind === 'RateLimitConfig')
  assert.ok(limits.length > 0)
  for (const resource of limits) {
    const made = translateRateLimitConfig('shop/checkout', resource)
    assert.ok('value' in made, JSON.stringify(made))
    assert.deepEqual(made.warnings, [])
  }
})

for (const file of ['istio/envoy-filter.yaml', 'envoy-gateway/envoy-patch-policy.yaml']) {
  test(`${file} adds the documented filter to an Envoy, which accepts it`, t => {
    if (!requireProgram(t, 'envoy')) return
    const [cluster, filter, virtualHost] = patchesOf(file)
    const listener = envoyListener({
      ...{ host: '127.0.0.1', port: 0, name: 'gateway', virtualHost },
      filters: [filter, routerFilter],
      action: { direct_response: { status: 200 } },
    })
    const path = join(temporaryFolder('kubernetes-examples'), 'envoy.yaml')
    writeFileSync(path, dump({ static_resources: { listeners: [listener], clusters: [cluster] } }))
    const { status, stderr } = spawnSync('envoy', ['--mode', 'validate', '-c', path], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    const { typed_config } = filter as { readonly typed_config: object }
    assert.deepEqual(
      { ...typed_config, '@type': '', rate_limit_service: '' },
      { '@type': '', domain: 'checkout', timeout: '0.05s', failure_mode_deny: false, rate_limit_service: '' },
    )
  })
}

test('Contour waits as long as the documented Envoy', () => {
  const [service] = resourcesOf('contour/contour.yaml')
  assert.equal(service?.spec?.timeoutPolicy?.response, '50ms')
})
