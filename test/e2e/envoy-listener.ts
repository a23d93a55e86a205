const types = 'type.googleapis.com/envoy.extensions.filters.'
const manager = 'envoy.filters.network.http_connection_manager'

/** The last filter of a listener. */
export const routerFilter = {
  name: 'envoy.filters.http.router',
  typed_config: { '@type': `${types}http.router.v3.Router` },
}

export interface ListenerPlan {
  readonly host: string
  readonly port: number
  /** The prefix of the listener's statistics. */
  readonly name: string
  readonly filters: readonly object[]
  /** The action of the only route, such as `direct_response`. */
  readonly action: object
  /** More fields of the virtual host, such as `rate_limits`. */
  readonly virtualHost?: object
}

/** Returns an HTTP listener of Envoy with one route for all requests. */
export function envoyListener(plan: ListenerPlan): object {
  const { host, port, name, filters, action, virtualHost } = plan
  const route = { match: { prefix: '/' }, ...action }
  const typedConfig = {
    '@type': `${types}network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    http_filters: filters,
    route_config: {
      virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route], ...virtualHost }],
    },
  }
  return {
    address: envoyAddress(host, port),
    filter_chains: [{ filters: [{ name: manager, typed_config: typedConfig }] }],
  }
}

export function envoyAddress(host: string, port: number): object {
  return { socket_address: { address: host, port_value: port } }
}
