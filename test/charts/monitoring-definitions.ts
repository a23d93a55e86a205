import type { RenderedObject } from './helm.ts'

/**
 * The part of the Prometheus operator's definitions that the chart uses. Other fields are refused, as by the
 * complete definitions, so a wrong name goes unnoticed only if it is wrong here too.
 */
export const monitoringDefinitions: readonly RenderedObject[] = [
  definition('PodMonitor', 'podmonitors', {
    selector: { type: 'object', properties: { matchLabels: texts() } },
    podMetricsEndpoints: list({
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
]

function definition(kind: string, plural: string, spec: Schemas): RenderedObject {
  const group = 'monitoring.coreos.com'
  const properties = { spec: { type: 'object', properties: spec } }
  const schema = { openAPIV3Schema: { type: 'object', properties } }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
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
