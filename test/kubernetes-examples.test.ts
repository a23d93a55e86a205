import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CORE_SCHEMA, dump, load, loadAll } from 'js-yaml'
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

const page = readFileSync(join(root, 'docs/tasks/install.md'), 'utf8')
const [, documentedText = ''] = /```yaml\n# envoy.yaml\n(.*?)```/s.exec(page) ?? []
const documented = partsOf(documentedText)

/** Returns the parts of the documented configuration that another Envoy needs. */
function partsOf(text: string) {
  const resources = at(load(text, { schema: CORE_SCHEMA }), 'static_resources')
  const manager = at(resources, 'listeners', 0, 'filter_chains', 0, 'filters', 0, 'typed_config')
  const cluster = at(resources, 'clusters', 0)
  const endpoint = at(cluster, 'load_assignment', 'endpoints', 0, 'lb_endpoints', 0, 'endpoint')
  return {
    cluster,
    filter: at(manager, 'http_filters', 0),
    rateLimits: at(manager, 'route_config', 'virtual_hosts', 0, 'rate_limits'),
    address: at(endpoint, 'address', 'socket_address'),
  }
}

function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return path.reduce((inner, step) => (inner as Readonly<Record<string | number, unknown>>)[step], value)
}

test('the application example has the Envoy configuration of docs/tasks/install.md', () => {
  const resources = resourcesOf('application/application.yaml')
  const config = resources.find(({ metadata }) => metadata.name === 'checkout-envoy')?.data?.['envoy.yaml']
  assert.equal(config, documentedText)
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
  test(`${file} adds the documented cluster, filter and actions to an Envoy, which accepts them`, t => {
    const [cluster, filter, virtualHost] = patchesOf(file)
    // The name differs from that of other clusters. Envoy Gateway's clusters have a limit of their own.
    const { connect_timeout: _, ...added } = cluster as { readonly connect_timeout?: string }
    const named = JSON.parse(
      JSON.stringify({ added, filter }).replaceAll('"tollway"', '"ratelimit"'),
    ) as object
    assert.deepEqual(named, { added: documented.cluster, filter: documented.filter })
    assert.deepEqual(virtualHost, { rate_limits: documented.rateLimits })
    if (!requireProgram(t, 'envoy')) return
    const listener = envoyListener({
      ...{ host: '127.0.0.1', port: 0, name: 'gateway', virtualHost },
      filters: [filter, routerFilter],
      action: { direct_response: { status: 200 } },
    })
    const path = join(temporaryFolder('kubernetes-examples'), 'envoy.yaml')
    writeFileSync(path, dump({ static_resources: { listeners: [listener], clusters: [cluster] } }))
    const { status, stderr } = spawnSync('envoy', ['--mode', 'validate', '-c', path], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  })
}

const [address, port] = ['address', 'port_value'].map(name => at(documented.address, name))
const [domain, timeout, denies] = ['domain', 'timeout', 'failure_mode_deny'].map(name =>
  at(documented.filter, 'typed_config', name),
)
const [service, namespace] = `${address}`.split('.')

test('Contour calls the documented Service in the documented time, and lets requests pass', () => {
  const [extension, configuration] = resourcesOf('contour/contour.yaml')
  assert.deepEqual(extension?.spec, {
    protocol: 'h2c',
    services: [{ name: service, port }],
    timeoutPolicy: { response: `${1000 * Number.parseFloat(`${timeout}`)}ms` },
  })
  assert.equal(extension?.metadata.namespace, namespace)
  const used = at(configuration?.spec, 'rateLimitService')
  assert.deepEqual([at(used, 'domain'), at(used, 'failOpen')], [domain, !denies])
})

test('Gloo calls the documented Service in the documented time, lets requests pass, and has limits', () => {
  const [upstream, settings, , limits] = resourcesOf('gloo/gloo.yaml')
  assert.deepEqual(upstream?.spec, {
    useHttp2: true,
    dnsRefreshRate: at(documented.cluster, 'dns_refresh_rate'),
    static: { hosts: [{ addr: address, port }] },
  })
  assert.deepEqual(at(settings?.spec, 'ratelimitServer'), {
    ratelimitServerRef: { name: upstream?.metadata.name, namespace: upstream?.metadata.namespace },
    requestTimeout: timeout,
    denyOnFail: denies,
  })
  // The only domain of Gloo.
  assert.equal(at(limits?.spec, 'domain'), 'custom')
})
