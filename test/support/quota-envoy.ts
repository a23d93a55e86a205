import { runEnvoy } from './envoy.ts'
import { freePorts } from './free-ports.ts'
import type { Cleanup } from './tollway.ts'

export interface QuotaEnvoy {
  readonly ingressPort: number
  readonly adminPort: number
  /** Resolves with the status of a request that has only these headers of its own. */
  request(headers: Readonly<Record<string, string>>, path?: string): Promise<number>
  kill(): Promise<void>
}

/** The name of the cluster of the quota service. */
export const quotaCluster = 'ratelimit'

/**
 * Starts an Envoy that answers each request itself, with 200, unless its filter `rate_limit_quota` rejects it.
 *
 * @param filter the configuration of the filter
 * @param servicePorts of the processes of the quota service, on the loopback address
 */
export async function startQuotaEnvoy(
  t: Cleanup,
  filter: object,
  ...servicePorts: readonly number[]
): Promise<QuotaEnvoy> {
  const [ingressPort = 0, adminPort = 0] = await freePorts(2)
  const config = {
    admin: { address: addressOf(adminPort) },
    static_resources: {
      listeners: [
        {
          name: 'ingress',
          address: addressOf(ingressPort),
          filter_chains: [{ filters: [connectionManager(filter)] }],
        },
      ],
      clusters: [serviceCluster(servicePorts)],
    },
  }
  const kill = await runEnvoy(t, JSON.stringify(config), { adminPort, concurrency: 2 })
  return {
    ingressPort,
    adminPort,
    kill,
    async request(headers, path = '/') {
      const response = await fetch(`http://127.0.0.1:${ingressPort}${path}`, { headers })
      await response.arrayBuffer()
      return response.status
    },
  }
}

function connectionManager(filter: object): object {
  const router = { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' }
  return {
    name: 'envoy.filters.network.http_connection_manager',
    typed_config: {
      '@type':
        'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
      stat_prefix: 'ingress',
      route_config: {
        virtual_hosts: [
          {
            name: 'app',
            domains: ['*'],
            routes: [{ match: { prefix: '/' }, direct_response: { status: 200 } }],
          },
        ],
      },
      http_filters: [
        { name: 'envoy.filters.http.rate_limit_quota', typed_config: filter },
        { name: 'envoy.filters.http.router', typed_config: router },
      ],
    },
  }
}

function serviceCluster(ports: readonly number[]): object {
  return {
    name: quotaCluster,
    type: 'STATIC',
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
    load_assignment: {
      cluster_name: quotaCluster,
      endpoints: [{ lb_endpoints: ports.map(port => ({ endpoint: { address: addressOf(port) } })) }],
    },
  }
}

function addressOf(port: number): object {
  return { socket_address: { address: '127.0.0.1', port_value: port } }
}
