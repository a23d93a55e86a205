import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CORE_SCHEMA, dump, load } from 'js-yaml'
import { describeCodes, startLoad } from '../e2e/load.ts'
import { type Envoy, startEnvoy } from '../support/envoy.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** The documented timeout is 50 ms; `ENVOY_TIMEOUT=0.050s` measures with it on an idle machine. */
const timeout = process.env['ENVOY_TIMEOUT'] ?? '5s'
const callers = 32

test('connections that reach their maximum age cost no call through Envoy', async t => {
  if (!requireProgram(t, 'envoy')) return
  const service = await startService(t, { GRPC_MAX_CONNECTION_AGE: '100ms' })
  const { envoy, calls } = await openEnvoy(t, [service.grpcPort])
  const closed = 'cluster.ratelimit.upstream_cx_destroy'
  await waitFor('20 drained connections', async () => ((await statistics(envoy)).get(closed) ?? 0) >= 20)
  await calls.stop()
})

test('three services that are replaced in turn cost no call through Envoy', async t => {
  if (!requireProgram(t, 'envoy')) return
  const start = () => startService(t, { DRAIN_DELAY: '500ms' })
  const services = await Promise.all([start(), start(), start()])
  const { setEndpoints, calls } = await openEnvoy(t, listPorts(services))
  for (let turn = 0; turn < 3; turn++) {
    services.push(await start())
    const [old] = services.splice(0, 1)
    assert.ok(old)
    const ended = old.program.end('SIGTERM')
    // Envoy resolves the name within DRAIN_DELAY.
    await setEndpoints(listPorts(services))
    assert.equal(await ended, 0)
    await calls.answered(100)
  }
  await calls.stop()
})

type Service = Awaited<ReturnType<typeof startService>>

async function startService(t: TestContext, env: Readonly<Record<string, string>>) {
  const files = rateLimitFiles(userLimit('1000000/day').replace('domain: shop', 'domain: checkout'))
  const service = await startRateLimit(t, { ...files.env, BACKEND_TYPE: 'memory', DRAIN_DELAY: '0s', ...env })
  await service.serves()
  return service
}

function listPorts(services: readonly Service[]): readonly number[] {
  return services.map(({ grpcPort }) => grpcPort)
}

/** Envoy with the endpoints of a file, and calls through it, of which none may lack a decision. */
async function openEnvoy(t: TestContext, ports: readonly number[]) {
  const folder = temporaryFolder('endpoints')
  const path = join(folder, 'endpoints.yaml')
  writeFileSync(path, endpointsFile(ports))
  const change = (config: string) =>
    withEndpointsFile(config.replace('timeout: 0.020s', `timeout: ${timeout}`), path)
  const envoy = await startEnvoy(t, 0, { concurrency: 1, change })
  const { codes, stop } = startLoad(`http://127.0.0.1:${envoy.ingressPort}/`, {
    user: 'bob',
    callers,
    callsPerSecond: 500,
  })
  t.after(stop)
  const count = () => codes.get(200) ?? 0
  await waitFor('calls through Envoy', () => count() > callers)
  return {
    envoy,
    /** Resolves when Envoy uses these endpoints. */
    async setEndpoints(next: readonly number[]): Promise<void> {
      writeFileSync(`${path}.new`, endpointsFile(next))
      renameSync(`${path}.new`, path)
      await waitFor('Envoy to use the endpoints', async () => {
        const text = await (await fetch(`http://127.0.0.1:${envoy.adminPort}/clusters`)).text()
        const found = [...text.matchAll(/^ratelimit::127\.0\.0\.1:(\d+)::cx_active/gm)].map(([, port]) =>
          Number(port),
        )
        return found.sort().join() === [...next].sort().join()
      })
    },
    calls: {
      async answered(more: number): Promise<void> {
        const before = count()
        await waitFor(`${more} more calls`, () => count() >= before + more)
      },
      async stop(): Promise<void> {
        await stop()
        const found = await statistics(envoy)
        const shown = `${describeCodes(codes)}; ${JSON.stringify([...found])}`
        t.diagnostic(shown)
        assert.deepEqual([...codes.keys()], [200], shown)
        assert.equal(found.get('cluster.app.ratelimit.error') ?? 0, 0, shown)
      },
    },
  }
}

async function statistics({ adminPort }: Envoy): Promise<ReadonlyMap<string, number>> {
  const filter =
    'ratelimit.(error|ok)|cluster.ratelimit.upstream_(cx|rq)_(destroy|protocol|total|timeout|.*reset)'
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/stats?usedonly&filter=${filter}`)).text()
  return new Map([...text.matchAll(/^(\S+): (\d+)$/gm)].map(([, name = '', value]) => [name, Number(value)]))
}

function withEndpointsFile(config: string, path: string): string {
  const bootstrap = load(config, { schema: CORE_SCHEMA }) as Bootstrap
  const clusters = bootstrap.static_resources.clusters.map(cluster => {
    if (cluster.name !== 'ratelimit') return cluster
    const { load_assignment: _, ...rest } = cluster
    return {
      ...rest,
      type: 'EDS',
      eds_cluster_config: {
        eds_config: { path_config_source: { path, watched_directory: { path: join(path, '..') } } },
      },
    }
  })
  return dump({
    ...bootstrap,
    node: { id: 'test', cluster: 'test' },
    static_resources: { ...bootstrap.static_resources, clusters },
  })
}

interface Bootstrap {
  readonly static_resources: { readonly clusters: readonly Cluster[] }
}

interface Cluster {
  readonly name: string
  readonly load_assignment?: object
}

function endpointsFile(ports: readonly number[]): string {
  const endpoint = (port: number) => ({
    endpoint: { address: { socket_address: { address: '127.0.0.1', port_value: port } } },
  })
  return dump({
    resources: [
      {
        '@type': 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
        cluster_name: 'ratelimit',
        endpoints: [{ lb_endpoints: ports.map(endpoint) }],
      },
    ],
  })
}
