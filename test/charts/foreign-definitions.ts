import type { RenderedObject } from './helm.ts'

/**
 * The part of the definitions of the Prometheus operator, the Gateway API and cert-manager that the chart
 * uses. Other fields are refused, as by the complete definitions, so a wrong name goes unnoticed only if it
 * is wrong here too.
 */
export const foreignDefinitions: readonly RenderedObject[] = [
  definition('PodMonitor', 'podmonitors', {
    selector: { type: 'object', properties: { matchLabels: texts() } },
    podMetricsEndpoints: list({
      port: text(),
      path: text(),
      interval: { type: 'string', pattern: '^([0-9]+(ms|s|m|h))+$' },
      relabelings: list({ targetLabel: text(), replacement: text() }),
    }),
  }),
  definition('ServiceMonitor', 'servicemonitors', {
    selector: { type: 'object', properties: { matchLabels: texts() } },
    endpoints: list({
      port: text(),
      path: text(),
      interval: { type: 'string', pattern: '^([0-9]+(ms|s|m|h))+$' },
      relabelings: list({ targetLabel: text(), replacement: text() }),
    }),
  }),
  definition('PrometheusRule', 'prometheusrules', {
    groups: list({
      name: text(),
      rules: list({ alert: text(), expr: text(), for: text(), labels: texts(), annotations: texts() }),
    }),
  }),
  definition(
    'HTTPRoute',
    'httproutes',
    {
      parentRefs: list({ name: text(), namespace: text(), sectionName: text() }),
      hostnames: { type: 'array', items: text() },
      rules: list({
        matches: list({ path: { type: 'object', properties: { type: text(), value: text() } } }),
        backendRefs: list({ name: text(), port: { type: 'integer' } }),
      }),
    },
    'gateway.networking.k8s.io',
  ),
  definition(
    'Certificate',
    'certificates',
    {
      secretName: text(),
      issuerRef: { type: 'object', properties: { name: text(), kind: text(), group: text() } },
      dnsNames: { type: 'array', items: text() },
      usages: {
        type: 'array',
        items: { type: 'string', enum: ['digital signature', 'server auth', 'client auth'] },
      },
      duration: text(),
      renewBefore: text(),
      privateKey: {
        type: 'object',
        properties: {
          algorithm: { type: 'string', enum: ['RSA', 'ECDSA', 'Ed25519'] },
          size: { type: 'integer' },
          rotationPolicy: { type: 'string', enum: ['Never', 'Always'] },
        },
      },
    },
    'cert-manager.io',
  ),
]

function definition(
  kind: string,
  plural: string,
  spec: Schemas,
  group = 'monitoring.coreos.com',
): RenderedObject {
  const properties = { spec: { type: 'object', properties: spec } }
  const schema = { openAPIV3Schema: { type: 'object', properties } }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${group}`,
      // The API server requires this annotation in groups of Kubernetes.
      annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api' },
    },
    spec: {
      group,
      names: { kind, plural, singular: kind.toLowerCase() },
      scope: 'Namespaced',
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  }
}

type Schemas = Readonly<Record<string, object>>

function text(): object {
  return { type: 'string', minLength: 1 }
}

function texts(): object {
  return { type: 'object', additionalProperties: { type: 'string' } }
}

function list(properties: Schemas): object {
  return { type: 'array', minItems: 1, items: { type: 'object', properties } }
}
