import { domain } from './configurations.ts'

const types = 'type.googleapis.com/envoy.extensions'
const timeout = '5s'

export interface EnvoyPorts {
  readonly admin: number
  /** The port of the application behind the sidecar; Envoy plays this role too. */
  readonly app: number
  /** A listener for each of these, by name; `rateLimit` is the port of its rate limit service, if any. */
  readonly listeners: readonly { readonly name: string; readonly port: number; readonly rateLimit?: number }[]
}

/**
 * Sidecars that differ only in the service that their rate limit filter calls for the header `x-user`; one
 * without a service has the same filter without descriptors. A call that cannot be decided is rejected, so
 * that failures are visible.
 */
export function envoyConfig({ admin, app, listeners }: EnvoyPorts): unknown {
  const asking = listeners.filter(({ rateLimit }) => rateLimit !== undefined)
  const anyService = asking[0]?.name ?? ''
  return {
    admin: { address: address(admin) },
    static_resources: {
      listeners: [
        ...listeners.map(({ name, port, rateLimit }) =>
          listener(name, port, sidecarRoute(rateLimit !== undefined), [
            rateLimitFilter(rateLimit === undefined ? anyService : name),
          ]),
        ),
        listener(
          'app',
          app,
          { direct_response: { status: 200, body: { inline_string: 'let through\n' } } },
          [],
        ),
      ],
      clusters: [
        cluster('app', app, {}),
        ...asking.map(({ name, rateLimit = 0 }) => cluster(name, rateLimit, http2)),
      ],
    },
  }
}

export interface MirrorPorts {
  readonly admin: number
  readonly listen: number
  readonly reference: number
  readonly candidate: number
}

/** A proxy that sends each gRPC call to the reference, and a copy of it to the candidate. */
export function mirrorConfig({ admin, listen, reference, candidate }: MirrorPorts): unknown {
  const mirrored = { cluster: 'reference', timeout, request_mirror_policies: [{ cluster: 'candidate' }] }
  return {
    admin: { address: address(admin) },
    static_resources: {
      listeners: [listener('mirror', listen, { route: mirrored }, [])],
      clusters: [cluster('reference', reference, http2), cluster('candidate', candidate, http2)],
    },
  }
}

function address(port: number) {
  return { socket_address: { address: '127.0.0.1', port_value: port } }
}

function sidecarRoute(asks: boolean) {
  const action = { request_headers: { header_name: 'x-user', descriptor_key: 'user' } }
  return { route: { cluster: 'app', ...(asks && { rate_limits: [{ actions: [action] }] }) } }
}

function listener(name: string, port: number, route: object, filters: readonly object[]) {
  const router = {
    name: 'envoy.filters.http.router',
    typed_config: { '@type': `${types}.filters.http.router.v3.Router` },
  }
  const manager = {
    '@type': `${types}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    route_config: {
      virtual_hosts: [{ name, domains: ['*'], routes: [{ match: { prefix: '/' }, ...route }] }],
    },
    http_filters: [...filters, router],
  }
  const filter = { name: 'envoy.filters.network.http_connection_manager', typed_config: manager }
  return { name, address: address(port), filter_chains: [{ filters: [filter] }] }
}

function rateLimitFilter(service: string) {
  return {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': `${types}.filters.http.ratelimit.v3.RateLimit`,
      domain,
      failure_mode_deny: true,
      timeout,
      rate_limit_service: {
        transport_api_version: 'V3',
        grpc_service: { envoy_grpc: { cluster_name: service } },
      },
    },
  }
}

const http2 = {
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': `${types}.upstreams.http.v3.HttpProtocolOptions`,
      explicit_http_config: { http2_protocol_options: {} },
    },
  },
}

function cluster(name: string, port: number, protocol: object) {
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: address(port) } }] }]
  return {
    name,
    type: 'STATIC',
    connect_timeout: '1s',
    load_assignment: { cluster_name: name, endpoints },
    ...protocol,
  }
}
