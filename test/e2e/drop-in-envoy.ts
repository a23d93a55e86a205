import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CORE_SCHEMA, dump, load, loadAll } from 'js-yaml'
import type { Certificate } from '../support/certificate.ts'
import { envoyAddress, envoyListener, routerFilter } from './envoy-listener.ts'

/** The folder of the manifests that users have. */
export const manifests = join(import.meta.dirname, 'manifests')

/** The ports at which Envoy serves as configured for each kind of manifests. */
export const dropInPorts = { reference: 8888, istio: 10000, envoyGateway: 10088 } as const

const upstream = 9999

interface Bootstrap {
  readonly static_resources: { readonly listeners: readonly object[]; readonly clusters: readonly object[] }
}

interface EnvoyFilter {
  readonly spec: { readonly configPatches: readonly [ConfigPatch] }
}

interface ConfigPatch {
  readonly applyTo: string
  readonly patch: { readonly value: object }
}

/**
 * Returns the configuration of one Envoy that calls all three services: with the listeners of the reference's
 * examples, of Istio with its EnvoyFilters, and of Envoy Gateway.
 *
 * @param identity with which Envoy connects to the service of Envoy Gateway, and by which it verifies it
 */
export function dropInEnvoy(identity: Certificate): string {
  const [reference, gateway] = ['reference', 'envoy-gateway'].map(
    folder =>
      load(readFileSync(join(manifests, folder, 'envoy.yaml'), 'utf8'), { schema: CORE_SCHEMA }) as Bootstrap,
  )
  const listeners = [reference, gateway].flatMap(bootstrap => bootstrap?.static_resources.listeners ?? [])
  const answer = envoyListener({
    ...{ host: '127.0.0.1', port: upstream, name: 'mock' },
    filters: [routerFilter],
    action: { direct_response: { status: 200, body: { inline_string: 'OK\n' } } },
  })
  const resources = {
    listeners: [...listeners, istioListener(), answer],
    clusters: [
      ...(reference?.static_resources.clusters ?? []),
      ...(gateway?.static_resources.clusters ?? []).map(cluster => ({
        ...cluster,
        transport_socket: mutualTls(identity),
      })),
      clusterOf('outbound|8081||ratelimit.default.svc.cluster.local', {
        ...{ host: 'ratelimit.default.svc.cluster.local', port: 8081, http2: true },
      }),
      clusterOf('mock', { host: '127.0.0.1', port: upstream, http2: false }),
    ],
  }
  return dump({ static_resources: resources })
}

/** Applies the patches of both EnvoyFilters to a listener, as Istio does. */
function istioListener(): object {
  const text = readFileSync(join(manifests, 'istio/envoy-filter.yaml'), 'utf8')
  const filters = loadAll(text, { schema: CORE_SCHEMA }) as readonly EnvoyFilter[]
  const patches = filters.flatMap(({ spec }) => spec.configPatches)
  const patchOf = (kind: string) => patches.find(({ applyTo }) => applyTo === kind)?.patch.value ?? {}
  return envoyListener({
    ...{ host: '0.0.0.0', port: dropInPorts.istio, name: 'outbound_0.0.0.0_8080' },
    filters: [patchOf('HTTP_FILTER'), routerFilter],
    action: { route: { cluster: 'mock' } },
    virtualHost: patchOf('VIRTUAL_HOST'),
  })
}

interface Upstream {
  readonly host: string
  readonly port: number
  readonly http2: boolean
}

function clusterOf(name: string, { host, port, http2 }: Upstream): object {
  const protocol = http2 ? { http2_protocol_options: {} } : { http_protocol_options: {} }
  return {
    name,
    type: 'STRICT_DNS',
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: protocol,
      },
    },
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: envoyAddress(host, port) } }] }],
    },
  }
}

function mutualTls({ cert, key }: Certificate): object {
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
      common_tls_context: {
        tls_params: { tls_maximum_protocol_version: 'TLSv1_3' },
        tls_certificates: [
          { certificate_chain: { inline_string: cert }, private_key: { inline_string: key } },
        ],
        validation_context: { trusted_ca: { inline_string: cert } },
      },
    },
  }
}
