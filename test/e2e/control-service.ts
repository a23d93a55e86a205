import { dump } from 'js-yaml'
import { envoyAddress, envoyListener, routerFilter } from './envoy-listener.ts'

/** The name of the control, of its Service and of Envoy's cluster for it. */
export const controlName = 'control'
const grpcPort = 8081
const answerPort = 9000
const replicas = 3

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
 * A rate limit service that does nothing: an Envoy that allows every call without reading it. It runs in as
 * many pods with the same requests as the service, so a call to it that is late shows that the machine is
 * late.
 */
export function controlService(namespace: string): object {
  const labels = { app: controlName }
  const metadata = { name: controlName, namespace, labels }
  const resources = { requests: { cpu: '100m', memory: '64Mi' } }
  const container = {
    name: 'envoy',
    image: 'tollway/test-envoy:dev',
    imagePullPolicy: 'IfNotPresent',
    resources,
    args: ['-c', '/etc/envoy/envoy.yaml', '--concurrency', '1', '-l', 'warning'],
    readinessProbe: { tcpSocket: { port: grpcPort }, periodSeconds: 1 },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [{ name: 'config', mountPath: '/etc/envoy' }],
  }
  const spec = {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [container],
    volumes: [{ name: 'config', configMap: { name: controlName } }],
  }
  const items = [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'envoy.yaml': dump(controlBootstrap()) } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP: 'None', selector: labels } },
  ]
  return { apiVersion: 'v1', kind: 'List', items }
}

function controlBootstrap(): object {
  const http1 = {
    '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    explicit_http_config: { http_protocol_options: {} },
  }
  return {
    static_resources: {
      listeners: [
        envoyListener({
          ...{ host: '0.0.0.0', port: grpcPort, name: controlName },
          filters: [bridgeFilter, routerFilter],
          action: { route: { cluster: 'answer' } },
        }),
        envoyListener({
          ...{ host: '127.0.0.1', port: answerPort, name: controlName },
          filters: [routerFilter],
          action: {
            direct_response: { status: 200, body: { inline_bytes: answer } },
            response_headers_to_add: [{ header: { key: 'content-type', value: 'application/x-protobuf' } }],
          },
        }),
      ],
      clusters: [
        {
          name: 'answer',
          type: 'STATIC',
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': http1,
          },
          load_assignment: {
            cluster_name: 'answer',
            endpoints: [{ lb_endpoints: [{ endpoint: { address: envoyAddress('127.0.0.1', answerPort) } }] }],
          },
        },
      ],
    },
  }
}
