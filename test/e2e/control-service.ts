import { dump } from 'js-yaml'
import { apply, kubectl } from './cluster.ts'
import { envoyAddress, envoyListener, routerFilter } from './envoy-listener.ts'

/** The name of the control, of its Service and of Envoy's cluster for it. */
export const controlName = 'control'
const storeName = 'control-store'
const grpcPort = 8081
const answerPort = 9000

/** `RateLimitResponse{overall_code: OK}`. */
const answer = Buffer.from([0x08, 0x01]).toString('base64')
/** The filter frames an answer by HTTP/1.1 as a gRPC message and adds the trailers. */
const bridgeFilter = {
  name: 'envoy.filters.http.grpc_http1_reverse_bridge',
  typed_config: {
    '@type': 'type.googleapis.com/envoy.extensions.filters.http.grpc_http1_reverse_bridge.v3.FilterConfig',
    content_type: 'application/x-protobuf',
    withhold_grpc_frames: true,
  },
}

/**
 * Starts a rate limit service that does nothing: Envoys in as many pods with the same requests as the
 * service, which ask another Envoy for each answer, as the service asks Redis. So a call to it passes as many
 * processes as a call to the service, and a call that is late shows that the machine is late.
 */
export async function startControl(namespace: string): Promise<void> {
  // The control resolves the name of the store at its start, and again only after seconds.
  await startEnvoys(namespace, {
    ...{ name: storeName, replicas: 1, port: answerPort, cpu: '50m' },
    bootstrap: storeBootstrap(),
  })
  await startEnvoys(namespace, {
    ...{ name: controlName, replicas: 3, port: grpcPort, cpu: '100m' },
    bootstrap: controlBootstrap(namespace),
  })
}

interface EnvoyPods {
  readonly name: string
  readonly replicas: number
  readonly port: number
  readonly cpu: string
  readonly bootstrap: object
}

async function startEnvoys(namespace: string, pods: EnvoyPods): Promise<void> {
  const { name, replicas, port, cpu, bootstrap } = pods
  const labels = { app: name }
  const metadata = { name, namespace, labels }
  const container = {
    name: 'envoy',
    image: 'tollway/test-envoy:dev',
    imagePullPolicy: 'IfNotPresent',
    resources: { requests: { cpu, memory: '64Mi' } },
    args: ['-c', '/etc/envoy/envoy.yaml', '--concurrency', '1', '-l', 'warning'],
    readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [{ name: 'config', mountPath: '/etc/envoy' }],
  }
  const spec = {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [container],
    volumes: [{ name: 'config', configMap: { name } }],
  }
  const items = [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'envoy.yaml': dump(bootstrap) } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP: 'None', selector: labels } },
  ]
  await apply({ apiVersion: 'v1', kind: 'List', items })
  await kubectl('-n', namespace, 'rollout', 'status', `deploy/${name}`, '--timeout=120s')
}

function controlBootstrap(namespace: string): object {
  const http1 = {
    '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    explicit_http_config: { http_protocol_options: {} },
  }
  const address = envoyAddress(`${storeName}.${namespace}.svc`, answerPort)
  return {
    static_resources: {
      listeners: [
        envoyListener({
          ...{ host: '0.0.0.0', port: grpcPort, name: controlName },
          filters: [bridgeFilter, routerFilter],
          action: { route: { cluster: 'answer' } },
        }),
      ],
      clusters: [
        {
          name: 'answer',
          type: 'STRICT_DNS',
          dns_lookup_family: 'V4_ONLY',
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': http1,
          },
          load_assignment: {
            cluster_name: 'answer',
            endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
          },
        },
      ],
    },
  }
}

function storeBootstrap(): object {
  return {
    static_resources: {
      listeners: [
        envoyListener({
          ...{ host: '0.0.0.0', port: answerPort, name: storeName },
          filters: [routerFilter],
          action: {
            direct_response: { status: 200, body: { inline_bytes: answer } },
            response_headers_to_add: [{ header: { key: 'content-type', value: 'application/x-protobuf' } }],
          },
        }),
      ],
    },
  }
}
