import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { CORE_SCHEMA, load } from 'js-yaml'
import { startEnvoy } from '../support/envoy.ts'
import { requireProgram } from '../support/require-server.ts'
import { root, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** A section of the page that has YAML: a resource, fields of a virtual host, and filters if it needs any. */
interface Recipe {
  readonly title: string
  readonly domain: string
  readonly resource: string
  readonly virtualHost: Readonly<Record<string, unknown>>
  readonly filters: readonly unknown[]
}

const parse = (yaml: string) => load(yaml, { schema: CORE_SCHEMA })

function readRecipe(section: string): Recipe {
  const [title = ''] = section.split('\n')
  const blocks = [...section.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => text)
  const [resource = '', virtualHost = '', filters = '{http_filters: []}', ...others] = blocks
  assert.deepEqual(others, [], title)
  return {
    title,
    domain: (parse(resource) as { spec: { domain: string } }).spec.domain,
    resource,
    virtualHost: parse(virtualHost) as Recipe['virtualHost'],
    filters: (parse(filters) as { http_filters: unknown[] }).http_filters,
  }
}

const recipes = readFileSync(join(root, 'docs/tasks/recipes.md'), 'utf8')
  .split(/^##+ /m)
  .filter(section => section.includes('```yaml'))
  .map(readRecipe)

/** The recipes share a rate limit filter, so that each virtual host names the domain. */
function createVirtualHost({ domain, virtualHost }: Recipe) {
  const filter = 'envoy.filters.http.ratelimit'
  const perFilter = virtualHost['typed_per_filter_config'] as Record<string, object> | undefined
  const type = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute'
  return {
    ...virtualHost,
    name: domain,
    domains: [domain],
    typed_per_filter_config: { ...perFilter, [filter]: { '@type': type, ...perFilter?.[filter], domain } },
  }
}

interface HttpConnectionManager {
  readonly route_config: Record<string, unknown>
  readonly http_filters: unknown[]
}

interface EnvoyConfig {
  readonly static_resources: {
    readonly listeners: readonly {
      readonly filter_chains: readonly {
        readonly filters: readonly { readonly typed_config: HttpConnectionManager }[]
      }[]
    }[]
  }
}

/** Replaces the virtual host of the example by those of the page. The application answers as a language model. */
function withRecipes(example: string): string {
  // The timeouts are long enough for a busy machine.
  const answering = example
    .replace('timeout: 0.020s', 'timeout: 5s')
    .replaceAll('connect_timeout: 0.25s', 'connect_timeout: 5s')
    .replace('inline_string: "let through\\n"', `inline_string: '{"usage": {"total_tokens": 300000}}'`)
  const config = parse(answering) as EnvoyConfig
  const [ingress, app] = config.static_resources.listeners.map(
    ({ filter_chains }) => filter_chains[0]?.filters[0]?.typed_config,
  )
  assert.ok(ingress && app)
  Object.assign(ingress, { use_remote_address: true })
  ingress.route_config['virtual_hosts'] = recipes.map(createVirtualHost)
  ingress.http_filters.unshift(...recipes.flatMap(({ filters }) => filters))
  const header = { key: 'content-type', value: 'application/json' }
  app.route_config['response_headers_to_add'] = [{ append_action: 'OVERWRITE_IF_EXISTS_OR_ADD', header }]
  return JSON.stringify(config)
}

interface Call {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The address of the client. */
  readonly from?: string
}

/** Calls a recipe, and reads a statistic of the rate limit process. */
interface Callers {
  /** Resolves with the number of admitted calls; every other one was rejected with 429. */
  admitted(calls: number, call: Call): Promise<number>
  stat(name: string): Promise<number>
  /** Changes the recipe's resource. */
  edit(from: string, to: string): void
}

const as = (headers: Readonly<Record<string, string>>, path = '/'): Call => ({ headers, path })

const checks: Readonly<Record<string, (callers: Callers) => Promise<void>>> = {
  'Limit logins by address': async ({ admitted }) => {
    const login = { path: '/login', method: 'POST' }
    assert.equal(await admitted(8, login), 5)
    assert.equal(await admitted(1, { ...login, headers: { 'x-forwarded-for': '192.0.2.1' } }), 0)
    assert.equal(await admitted(1, { ...login, from: '127.0.0.2' }), 1)
    assert.equal(await admitted(8, { path: '/login' }), 8, 'the form is no attempt')
  },
  'Limit users and paths': async ({ admitted }) => {
    const alice = { 'x-user': 'alice' }
    assert.equal(await admitted(6, as(alice, '/search?q=a')), 6)
    assert.equal(await admitted(6, as(alice, '/search?q=b')), 4)
    assert.equal(await admitted(1, as(alice)), 1)
    assert.equal(await admitted(1, as({ 'x-user': 'bob' }, '/search')), 1)
    assert.equal(await admitted(60, as(alice)), 60 - 12 - 1, 'rejected searches count for the user')
  },
  'Give each plan a daily quota': async ({ admitted }) => {
    assert.equal(await admitted(110, as({ 'x-plan': 'free', 'x-user': 'alice' })), 100)
    assert.equal(await admitted(110, as({ 'x-plan': 'pro', 'x-user': 'alice' })), 110)
    assert.equal(await admitted(1, as({ 'x-plan': 'free', 'x-user': 'bob' })), 1)
  },
  'Give each team a monthly budget of tokens': async ({ admitted, stat }) => {
    for (const call of [1, 2, 3, 4]) {
      assert.equal(await admitted(1, as({ 'x-team': 'search' })), 1, `call ${call}`)
      await waitFor(
        'the cost of the call',
        async () => (await stat('models.team.month.total_hits')) === 300_000 * call,
      )
    }
    assert.equal(await admitted(2, as({ 'x-team': 'search' })), 0)
    assert.equal(await admitted(1, as({ 'x-team': 'ads' })), 1)
  },
  'Let staff call without a limit': async ({ admitted }) => {
    assert.equal(await admitted(25, as({ 'x-user': 'alice', 'x-role': 'staff' })), 25)
    assert.equal(await admitted(25, as({ 'x-user': 'alice', 'x-role': 'customer' })), 20)
  },
  'Try a limit in shadow mode': async ({ admitted, stat, edit }) => {
    const alice = as({ 'x-user': 'alice' })
    assert.equal(await admitted(25, alice), 25)
    await waitFor('the statistics', async () => (await stat('trial.user.shadow_mode')) === 5)
    edit('      shadowMode: true\n', '')
    await waitFor('the limit to reject', async () => (await admitted(1, alice)) === 0)
  },
  'Share one limit in a group': async ({ admitted }) => {
    assert.equal(await admitted(30, as({ 'x-tenant': 'acme-eu' })), 30)
    assert.equal(await admitted(30, as({ 'x-tenant': 'acme-us' })), 20)
    assert.equal(await admitted(30, as({ 'x-tenant': 'globex' })), 20)
  },
  'Limit networks instead of addresses': async ({ admitted }) => {
    assert.equal(await admitted(15, { from: '127.0.0.1' }), 15)
    assert.equal(await admitted(15, { from: '127.0.0.2' }), 5)
    assert.equal(await admitted(1, { from: '127.0.1.1' }), 1)
  },
  'Exempt a network': async ({ admitted }) => {
    assert.equal(await admitted(25, { from: '127.20.3.4' }), 25)
    assert.equal(await admitted(25, { from: '127.21.3.4' }), 20)
  },
  'Limit a pattern of paths': async ({ admitted }) => {
    assert.equal(await admitted(15, { path: '/api/v1/orders/17/refund' }), 15)
    assert.equal(await admitted(15, { path: '/api/v2/orders/18/refund?all=1' }), 5)
    assert.equal(await admitted(5, { path: '/api/v1/orders/17' }), 5)
  },
}

/** The windows of days and months begin with an hour; calls around it are not comparable. */
const hour = () => Math.floor(Date.now() / 3_600_000)

test('each recipe of the page limits as it says, through a real Envoy', async t => {
  if (!requireProgram(t, 'envoy')) return
  assert.deepEqual(Object.keys(checks).toSorted(), recipes.map(({ title }) => title).toSorted())
  const files = recipes.map(({ domain, resource }) => {
    // Loopback addresses stand for those of the network of the page.
    return [`${domain}.yaml`, resource.replace('10.20.0.0/16', '127.20.0.0/16')] as const
  })
  const tollway = await startTollway(t, Object.fromEntries(files))
  const { replicas } = await tollway.ready()
  const { ingressPort } = await startEnvoy(t, tollway.grpcPort, { concurrency: 1, change: withRecipes })
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  t.after(() => agent.destroy())
  const stat = async (name: string) => {
    const response = await fetch(`${replicas[0]?.addresses['debug']}/stats?format=json`)
    const stats = (await response.json()) as Record<string, number>
    return stats[`ratelimit.service.rate_limit.${name}`] ?? 0
  }
  for (const { title, domain, resource } of recipes) {
    const admitted = async (calls: number, { headers, from, ...call }: Call) => {
      const options = {
        ...call,
        port: ingressPort,
        localAddress: from,
        headers: { ...headers, host: domain },
      }
      const codes = await Promise.all(Array.from({ length: calls }, () => callForStatus(options)))
      const failed = codes.filter(code => code !== 200 && code !== 429)
      assert.deepEqual(failed, [])
      return codes.filter(code => code === 200).length
    }
    const edit = (from: string, to: string) => {
      assert.ok(resource.includes(from))
      tollway.write(`${domain}.yaml`, resource.replace(from, to))
    }
    await t.test(title, async () => {
      const began = hour()
      try {
        await checks[title]?.({ admitted, stat, edit })
      } catch (error) {
        if (hour() === began) throw error
      }
    })
  }
})

function callForStatus(options: object): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', ...options }, response => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject).end()
  })
}
