import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CORE_SCHEMA, dump, load } from 'js-yaml'
import { root } from '../support/tollway.ts'
import { controlName } from './control-service.ts'
import { envoyListener, routerFilter } from './envoy-listener.ts'

interface Bootstrap {
  readonly static_resources: { readonly listeners: readonly object[]; readonly clusters: readonly object[] }
}

/** The application that the documented configuration expects on this port: it answers 200 to everything. */
const application = envoyListener({
  ...{ host: '127.0.0.1', port: 9000, name: 'application' },
  filters: [routerFilter],
  action: { direct_response: { status: 200, body: { inline_string: 'OK\n' } } },
})

/** The port of Envoy's own statistics. */
const adminPort = 9901
const controlled = 'controlled-application'

/** The routes of Envoy: requests that the service decides, and requests that the control decides. */
export const routes = {
  service: { port: 10000, cluster: 'application' },
  control: { port: 10001, cluster: controlled },
} as const

/**
 * The ConfigMap of the Envoy of these tests: the configuration of docs/tasks/install.md as it is there, with
 * a port for statistics and the application beside it; and the same configuration a second time, which
 * calls the control.
 *
 * @param more listeners, which may name the clusters of the page
 */
export function documentedEnvoy(namespace: string, ...more: readonly object[]): object {
  const page = readFileSync(join(root, 'docs/tasks/install.md'), 'utf8')
  const [, text = ''] = /```yaml\n# envoy.yaml\n(.*?)```/s.exec(page) ?? []
  const { static_resources: documented } = load(text, { schema: CORE_SCHEMA }) as Bootstrap
  const copy = callingControl(documented, namespace)
  const bootstrap = {
    admin: { address: { socket_address: { address: '0.0.0.0', port_value: adminPort } } },
    static_resources: {
      listeners: [...documented.listeners, ...copy.listeners, application, ...more],
      clusters: [...documented.clusters, ...copy.clusters],
    },
  }
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'envoy', namespace },
    data: { 'envoy.yaml': dump(bootstrap) },
  }
}

/** Returns a copy with other names, another port, and the address of the control. */
function callingControl(
  resources: Bootstrap['static_resources'],
  namespace: string,
): Bootstrap['static_resources'] {
  const text = JSON.stringify(resources)
    .replaceAll('"name":"ratelimit"', `"name":"${controlName}"`)
    .replaceAll('"cluster_name":"ratelimit"', `"cluster_name":"${controlName}"`)
    .replaceAll(`"${routes.service.cluster}"`, `"${controlled}"`)
    .replaceAll(`"port_value":${routes.service.port}`, `"port_value":${routes.control.port}`)
    .replaceAll('tollway-ratelimit.tollway-system.svc', `${controlName}.${namespace}.svc`)
  return JSON.parse(text) as Bootstrap['static_resources']
}

/**
 * How many decisions Envoy did not get, for any reason: the request then passes, because the documented
 * configuration does not fail requests.
 */
export async function failedDecisions(envoyIp: string, route: keyof typeof routes): Promise<number> {
  const name = `cluster.${routes[route].cluster}.ratelimit.error`
  const response = await fetch(`http://${envoyIp}:${adminPort}/stats?filter=^${name}$&format=json`)
  const { stats } = (await response.json()) as { stats: readonly { readonly value?: number }[] }
  return stats.reduce((sum, { value = 0 }) => sum + value, 0)
}
